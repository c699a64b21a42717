"""`python -m legacy_consumer` is `legacy-consumer`."""

from legacy_consumer.operations.cli import main

if __name__ == "__main__":
    main()
