"""zk_offsets against kazoo alone, on a server that takes reads in bulk and on one that does not."""

from benchmarks.comparison import Comparison
from benchmarks.spark_reading import SECONDS, ZNODES_PER_S, OffsetsScene, OffsetsStage, ReadOffsets

COMPARISONS: tuple[Comparison[OffsetsStage], ...] = (
    Comparison(
        name="spark_offsets_vs_kazoo",
        about="zk_offsets, 100,000 offsets of 1,000 groups, against two processes of pipelined kazoo",
        scene=OffsetsScene(),
        ours=ReadOffsets("spark_offsets"),
        peer=ReadOffsets("kazoo_offsets"),
        figure=ZNODES_PER_S,
        unit="znodes/s",
        better="higher",
        target=5.0,
    ),
    Comparison(
        name="spark_offsets_zk35_vs_kazoo",
        about="the same on ZooKeeper 3.5.9, which takes no reads in bulk",
        scene=OffsetsScene(version="3.5"),
        ours=ReadOffsets("spark_offsets"),
        peer=ReadOffsets("kazoo_offsets"),
        figure=SECONDS,
        unit="s",
        better="lower",
        target=1.3,
        in_quick=False,
    ),
)
