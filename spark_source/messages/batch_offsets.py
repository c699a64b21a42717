"""The first and the last offsets of a batch read, before it is made: for users that keep offsets beside the data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from spark_source.messages.options import check_for_batch, parse_message_options
from spark_source.messages.stream_offsets import ByPartition, by_partition


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """The first offset of each partition, and the one behind its last: {topic: {partition: offset}}.

    Of a partition with nothing to read both are the same.
    """

    starting: ByPartition
    ending: ByPartition

    def options(self) -> dict[str, str]:
        """Return the options that fix a read to these offsets, whenever its tasks run and however often.

        They override the options by which the offsets were found; one of those may have been a time.
        """
        return {
            "startingOffsets": json.dumps(self.starting),
            "endingOffsets": json.dumps(self.ending),
            "startingOffsetsByTimestampStrategy": "latest",
        }


def batch_offsets(options: Mapping[str, str]) -> BatchOffsets:
    """Where a batch read of zk_messages with these options begins and ends now. Asks ZooKeeper and brokers, not Spark.

    Raises: what planning such a read does.
    """
    # not with the module: Spark imports the package into workers that have no use for these
    from spark_source.broker_access import check_access
    from spark_source.messages.batch import find_bounds, report_loss
    from spark_source.messages.cluster import Cluster
    from spark_source.messages.positions import to_ranges

    parsed = parse_message_options(options)
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
    return BatchOffsets(by_partition(starting), by_partition(ending))
