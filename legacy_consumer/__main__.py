"""`python -m legacy_consumer` is `legacy-consumer`."""

import sys


def program() -> None:
    """Run the command. Ctrl-C, also during the imports, ends it with exit code 130 and without a traceback."""
    try:
        from legacy_consumer.operations.cli import main
        from legacy_consumer.operations.cli.helpers.logs import log_ends_of_threads

        log_ends_of_threads()
        main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    program()
