"""Workers that plan streams, and that end as Spark ends them: by SIGTERM, and a second SIGTERM while they leave.

python planners_that_end.py OPTIONS [GROUP...] runs one worker for each group. The second signal comes at the first line
of the reader's stop for the first worker, at the second line for the next one, and so on. Prints each line's place.
"""

import atexit
import json
import os
import signal
import sys
from pathlib import Path

from pyspark.sql.types import BinaryType, StructType

from spark_source.source import ZkMessages

ROOT = str(Path(__file__).parents[2])
OURS = tuple(f"{ROOT}/{package}/" for package in ("spark_source", "legacy_consumer", "rebalance", "zk_layout"))


class SecondSignal:
    """A trace function that sends SIGTERM at the at-th line of this project's code."""

    def __init__(self, at):
        self.left = at

    def __call__(self, frame, event, _):
        name = frame.f_code.co_filename
        if not name.startswith(OURS):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                print(f"{Path(name).name}:{frame.f_lineno}", flush=True)
                os.kill(os.getpid(), signal.SIGTERM)
        return self


def plan_until_the_end(options, moment):
    reader = ZkMessages(options).streamReader(StructType().add("value", BinaryType()))
    try:
        reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    finally:
        sys.settrace(SecondSignal(moment))
        reader.stop()


def main():
    options = json.loads(sys.argv[1])
    for moment, group in enumerate(sys.argv[2:], 1):
        # by fork, because the imports take time; the process has no other thread yet
        pid = os.fork()
        if pid == 0:
            try:
                plan_until_the_end({**options, "group.id": group}, moment)
            except SystemExit:
                sys.settrace(None)
            finally:
                atexit._run_exitfuncs()
                os._exit(0)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
