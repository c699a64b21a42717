"""`python -m legacy_consumer` is `legacy-consumer`."""

from legacy_consumer.cli import main

if __name__ == "__main__":
    main()
