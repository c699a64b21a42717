"""One member leaves N others on P partitions: how long until every partition has its owner again."""

from benchmarks.comparison import Comparison
from benchmarks.grouping import LEAVE_S, QUICK_SIZES, SIZES, Changes, GroupScene, GroupStage


def _comparison(members: int, partitions: int) -> Comparison[GroupStage]:
    return Comparison(
        name=f"leave_vs_jvm_{members}_{partitions}",
        about=f"one member leaves {members} others on {partitions} partitions: until they have settled",
        scene=GroupScene(partitions),
        ours=Changes("ours", members),
        peer=Changes("jvm", members),
        figure=LEAVE_S,
        unit="s",
        better="lower",
        target=0.12,
        in_quick=(members, partitions) in QUICK_SIZES,
    )


COMPARISONS = [_comparison(members, partitions) for members, partitions in SIZES]
