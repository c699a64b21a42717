"""N members of a group on P partitions start together: how long until every partition has its owner."""

from benchmarks.comparison import Comparison
from benchmarks.grouping import QUICK_SIZES, SIZES, START_S, Changes, GroupScene, GroupStage


def _comparison(members: int, partitions: int) -> Comparison[GroupStage]:
    return Comparison(
        name=f"start_vs_jvm_{members}_{partitions}",
        about=f"{members} members start together on {partitions} partitions: until they have settled",
        scene=GroupScene(partitions),
        ours=Changes("ours", members),
        peer=Changes("jvm", members),
        figure=START_S,
        unit="s",
        better="lower",
        target=0.35 if members == 50 else None,
        in_quick=(members, partitions) in QUICK_SIZES,
    )


COMPARISONS = [_comparison(members, partitions) for members, partitions in SIZES]
