"""The command line: main, and one file for each command."""

from legacy_consumer.cli.main import main

__all__ = ["main"]
