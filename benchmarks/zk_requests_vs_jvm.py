"""What it costs ZooKeeper that one member joins a group of N on P partitions."""

from benchmarks.comparison import Comparison
from benchmarks.grouping import JOIN_REQUESTS, SIZES, Changes, GroupStage, Size


def _comparison(size: Size) -> Comparison[GroupStage]:
    return Comparison(
        name=size.name("zk_requests"),
        about=f"requests at ZooKeeper while one joins a group of {size}",
        scene=size.scene,
        ours=Changes("ours", size.members),
        peer=Changes("jvm", size.members),
        figure=JOIN_REQUESTS,
        unit="requests",
        better="lower",
        target=(0.1 if size.plain else 0.04) if size.members == 50 else None,
        in_quick=size.in_quick,
    )


COMPARISONS = [_comparison(size) for size in SIZES]
