"""`python -m legacy_consumer` is `legacy-consumer`."""

import sys


def program() -> None:
    """Run the command. Ctrl-C, also during the imports, ends it with exit code 130 and without a traceback."""
    try:
        from legacy_consumer.operations.cli import main

        main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    program()
