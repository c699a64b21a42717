"""Committing the offsets of 500 partitions, all of them changed since the last commit."""

from benchmarks.comparison import Comparison
from benchmarks.grouping import COMMITS_PER_S, Commits, GroupScene, GroupStage

COMPARISON: Comparison[GroupStage] = Comparison(
    name="commit_vs_jvm",
    about="commit_offsets() of 500 changed offsets against ConsumerConnector.commitOffsets() of as many",
    scene=GroupScene(partitions=500),
    ours=Commits("ours"),
    peer=Commits("jvm"),
    figure=COMMITS_PER_S,
    unit="commits of 500 offsets/s",
    better="higher",
    target=20.0,
)
