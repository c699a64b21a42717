"""N members of a group on P partitions start together: how long until every partition has its owner."""

from benchmarks.comparison import Comparison
from benchmarks.grouping import SIZES, START_S, Changes, GroupStage, Size


def _comparison(size: Size) -> Comparison[GroupStage]:
    return Comparison(
        name=size.name("start"),
        about=f"a group starts, all at once, of {size}: until it has settled",
        scene=size.scene,
        ours=Changes("ours", size.members),
        peer=Changes("jvm", size.members),
        figure=START_S,
        unit="s",
        better="lower",
        target=(0.8 if size.plain else 0.35) if size.members == 50 else None,
        in_quick=size.in_quick,
    )


COMPARISONS = [_comparison(size) for size in SIZES]
