"""python -m tests.simulation: runs worlds; see --help."""

import sys

from tests.simulation.running import main

if __name__ == "__main__":
    sys.exit(main())
