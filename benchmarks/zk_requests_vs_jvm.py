"""What it costs ZooKeeper that one member joins a group of N on P partitions."""

from benchmarks.comparison import Comparison
from benchmarks.grouping import JOIN_REQUESTS, QUICK_SIZES, SIZES, Changes, GroupScene, GroupStage


def _comparison(members: int, partitions: int) -> Comparison[GroupStage]:
    return Comparison(
        name=f"zk_requests_vs_jvm_{members}_{partitions}",
        about=f"requests at ZooKeeper while one joins {members} members on {partitions} partitions",
        scene=GroupScene(partitions),
        ours=Changes("ours", members),
        peer=Changes("jvm", members),
        figure=JOIN_REQUESTS,
        unit="requests",
        better="lower",
        target=0.04 if members == 50 else None,
        in_quick=(members, partitions) in QUICK_SIZES,
    )


COMPARISONS = [_comparison(members, partitions) for members, partitions in SIZES]
