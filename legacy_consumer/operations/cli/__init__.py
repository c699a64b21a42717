"""The command line: main, and one file for each command."""

from legacy_consumer.operations.cli.main import main

__all__ = ["main"]
