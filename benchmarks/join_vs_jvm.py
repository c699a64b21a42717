"""One member joins a group of N on P partitions: how long until every partition has its owner again."""

from benchmarks.comparison import Comparison
from benchmarks.grouping import JOIN_S, QUICK_SIZES, SIZES, Changes, GroupScene, GroupStage


def _comparison(members: int, partitions: int) -> Comparison[GroupStage]:
    return Comparison(
        name=f"join_vs_jvm_{members}_{partitions}",
        about=f"one member joins a group of {members} on {partitions} partitions: until it has settled",
        scene=GroupScene(partitions),
        ours=Changes("ours", members),
        peer=Changes("jvm", members),
        figure=JOIN_S,
        unit="s",
        better="lower",
        target=0.1 if members == 1 else 0.05,
        in_quick=(members, partitions) in QUICK_SIZES,
    )


COMPARISONS = [_comparison(members, partitions) for members, partitions in SIZES]
