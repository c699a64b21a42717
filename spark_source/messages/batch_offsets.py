"""The first and the last offsets of a batch read, before it runs: for users that keep offsets beside the data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field

from spark_source.messages.options import check_for_batch, parse_message_options
from spark_source.messages.stream_offsets import ByPartition, by_partition

_FIXED = {
    "topics",
    "whitelist",
    "blacklist",
    "partitions",
    "startingoffsets",
    "endingoffsets",
    "startingoffsetsbytimestampstrategy",
}
"""The options that choose what is read, in lower case."""


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """The first offset of each partition, and the one after its last: {topic: {partition: offset}}.

    The two are equal for a partition with nothing to read. others: the options that do not choose what is read.
    """

    starting: ByPartition
    ending: ByPartition
    others: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    def options(self) -> dict[str, str]:
        """Return all options of a read of exactly these partitions and offsets, at any later time.

        Partitions that a topic gets later, and topics that a filter would match later, are not read.
        """
        return {
            **self.others,
            "partitions": json.dumps({topic: [*map(int, own)] for topic, own in self.starting.items()}),
            "startingOffsets": json.dumps(self.starting),
            "endingOffsets": json.dumps(self.ending),
        }


def batch_offsets(options: Mapping[str, str | bool | float | None]) -> BatchOffsets:
    """Return the present bounds of a batch read of zk_messages. Asks ZooKeeper and brokers, not Spark.

    options: as for spark.read.options. An option that is None is left out.
    Raises: as ZkMessagesReader.partitions.
    """
    # imported here: Spark imports the package into workers that do not need these modules
    from spark_source.broker_access import check_access
    from spark_source.messages.batch import find_bounds, report_loss
    from spark_source.messages.cluster import Cluster
    from spark_source.messages.positions import to_ranges

    given = {name: str(value) for name, value in options.items() if value is not None}
    parsed = parse_message_options(given)
    check_for_batch(parsed)
    with closing(Cluster(parsed)) as cluster:
        cluster.open()
        check_access(parsed.config, cluster.brokers())
        starts, ends, logs = find_bounds(parsed, cluster, cluster.partitions())
    ranges, lost = to_ranges(starts, ends, logs)
    report_loss(parsed, lost)
    begins = {tp: min(max(start, logs.earliest[tp]), logs.latest[tp]) for tp, start in starts.items()}
    starting = {**begins, **{each.partition: each.start for each in ranges}}
    ending = {**begins, **{each.partition: each.end for each in ranges}}
    others = {name: value for name, value in given.items() if name.lower() not in _FIXED}
    return BatchOffsets(by_partition(starting), by_partition(ending), others)
