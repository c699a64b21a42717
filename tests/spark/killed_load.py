"""A load for a test to kill: killed_load.py FOLDER FILE OPTIONS-AS-JSON

The task of partition 0 fails after some of its rows. Its second attempt creates FILE, and then hangs.
"""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import load_with_offsets
import pyarrow as pa
from pyspark import TaskContext

COLUMNS = "topic string, partition int, offset bigint"


def main() -> None:
    folder, half, options = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])

    def stopping(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch["partition"][0].as_py() == 0:
                yield batch.slice(0, 3)
                if TaskContext.get().attemptNumber() == 0:
                    raise ValueError("a task that fails")
                half.touch()
                signal.pause()
            yield batch

    spark = load_with_offsets.start_spark("local[2,4]", str(folder))
    load_with_offsets.load(
        spark,
        options,
        folder / "table",
        lambda messages: messages.select("topic", "partition", "offset").mapInArrow(stopping, COLUMNS),
    )


if __name__ == "__main__":
    main()
