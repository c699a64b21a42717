"""python -m tests.simulation: runs worlds; see --help."""

import sys

from tests.simulation.running import main

sys.exit(main())
