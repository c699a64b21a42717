"""One member joins a group of N on P partitions: how long until every partition has its owner again."""

from benchmarks.comparison import Comparison
from benchmarks.grouping import JOIN_S, SIZES, Changes, GroupStage, Size


def _target(size: Size) -> float:
    if size.plain:
        return 0.12
    return 0.1 if size.members == 1 else 0.05


def _comparison(size: Size) -> Comparison[GroupStage]:
    return Comparison(
        name=size.name("join"),
        about=f"one member joins a group of {size}: until it has settled",
        scene=size.scene,
        ours=Changes("ours", size.members),
        peer=Changes("jvm", size.members),
        figure=JOIN_S,
        unit="s",
        better="lower",
        target=_target(size),
        in_quick=size.in_quick,
    )


COMPARISONS = [_comparison(size) for size in SIZES]
