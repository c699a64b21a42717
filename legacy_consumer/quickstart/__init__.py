"""The main job: real servers, real flights, a group that grows, loses a member and shrinks, and a proof."""

from legacy_consumer.quickstart.errors import QuickstartError
from legacy_consumer.quickstart.report import Report
from legacy_consumer.quickstart.screen import LiveScreen, PlainScreen, Screen, print_summary
from legacy_consumer.quickstart.story import run_story

__all__ = ["LiveScreen", "PlainScreen", "QuickstartError", "Report", "Screen", "print_summary", "run_story"]
