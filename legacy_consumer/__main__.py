"""`python -m legacy_consumer` is `legacy-consumer`."""

import sys


def program() -> None:
    """Run the command; Ctrl-C ends it without a traceback also while its modules are loaded, with exit code 130."""
    try:
        from legacy_consumer.operations.cli import main

        main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    program()
