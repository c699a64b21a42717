"""One member leaves N others on P partitions: how long until every partition has its owner again."""

from benchmarks.comparison import Comparison
from benchmarks.grouping import LEAVE_S, SIZES, Changes, GroupStage, Size


def _comparison(size: Size) -> Comparison[GroupStage]:
    return Comparison(
        name=size.name("leave"),
        about=f"one member leaves a group, which is then of {size}: until it has settled",
        scene=size.scene,
        ours=Changes("ours", size.members),
        peer=Changes("jvm", size.members),
        figure=LEAVE_S,
        unit="s",
        better="lower",
        target=0.25 if size.plain else 0.12,
        in_quick=size.in_quick,
    )


COMPARISONS = [_comparison(size) for size in SIZES]
