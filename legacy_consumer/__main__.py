"""`python -m legacy_consumer` is `legacy-consumer`."""

import sys

from legacy_consumer.cli import main

if __name__ == "__main__":
    sys.exit(main())
