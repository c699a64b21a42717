"""Every tool and a member say the same of every partition, whatever stands there."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legacy_consumer.admin.group_table import read_group_partitions
from legacy_consumer.admin.offset_plans import make_plan, read_standings
from legacy_consumer.offsets import ZooKeeperOffsetStore
from legacy_consumer.offsets.judgement import Verdict
from spark_source.offsets import COLUMNS, Facts
from tests.support.memory_cluster import MemoryCluster
from zk_layout.model import TopicPartition

WRITTEN = st.one_of(
    st.none(), st.integers(-1, 30).map(str), st.sampled_from(["", "7\n", " 7", "x", "1e3", "99999999999999999999"])
)
PARTITION = st.tuples(WRITTEN, st.integers(0, 20), st.integers(0, 10), st.booleans())


@pytest.fixture
def new_cluster():
    with pytest.MonkeyPatch.context() as patch:
        yield lambda: MemoryCluster(patch)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(partitions=st.lists(PARTITION, min_size=1, max_size=5), has_deletions=st.booleans())
def test_describe_the_doctor_a_reset_spark_and_a_member_agree(new_cluster, partitions, has_deletions):
    """Each partition: what is written, where its log begins, how long it is, whether its topic was made afterwards."""
    cluster = new_cluster()
    if has_deletions:
        cluster.topic("another")
        cluster.drop("another")
    # one topic for each, so that each has a life of its own
    for number, (written, begin, length, is_reborn) in enumerate(partitions):
        if not is_reborn:
            cluster.topic(f"t{number}", (begin, begin + length))
        if written is not None:
            cluster.put(f"/consumers/g/offsets/t{number}/0", written)
        if is_reborn:
            cluster.topic(f"t{number}", (begin, begin + length))
    cluster.join("g", "m", json.dumps({f"t{number}": 1 for number in range(len(partitions))}))
    described = json.loads(cluster.run("groups", "describe", "g", "--json").out)["partitions"]
    found = {TopicPartition(row["topic"], row["partition"]): row for row in described}
    standings = read_standings(cluster.store, "g")
    member = ZooKeeperOffsetStore(cluster.store, "g")
    named = {
        finding["code"]: " ".join([finding["text"], *finding["commands"]])
        for finding in json.loads(cluster.run("doctor", "--json").out)
    }
    spark = read_group_partitions(cluster.store, ["g"], include_unclaimed=True)
    facts = Facts(
        {tp: begin for tp, (begin, _) in cluster.logs.items()},
        {tp: end for tp, (_, end) in cluster.logs.items()},
        {("g", "m"): "static"},
    )

    def values_of_spark(name, rows):
        return next(column for column in COLUMNS if column.name == name).values(rows, facts)

    assert found.keys() == standings.keys() == {TopicPartition(f"t{n}", 0) for n in range(len(partitions))}
    for tp, row in found.items():
        verdict, standing = Verdict(row["offset_is"]), standings[tp]
        [read] = member.read([tp]).values()
        assert row["committed"] == standing.offset == read.offset
        assert standing.outlived == read.outlived
        assert (verdict is Verdict.EARLIER_TOPIC) == (read.outlived is not None)
        assert (verdict is Verdict.NONE) == (read.offset is read.outlived is read.problem is None)
        assert (verdict is Verdict.UNREADABLE) == (read.problem is not None) == (standing.problem is not None)
        for outside, code in (
            (Verdict.BEYOND_LOG, "beyond_the_log"),
            (Verdict.BEFORE_LOG, "before_the_log"),
            (Verdict.EARLIER_TOPIC, "earlier_topic"),
            (Verdict.UNREADABLE, "unreadable_znode"),
        ):
            assert (verdict is outside) == (f"{tp.topic}:0" in named.get(code, "")), (tp, verdict, named)
        [rows_of_spark] = [rows for rows in spark if (rows.topic, rows.partition) == tp]
        told = (values_of_spark("committed_offset", [rows_of_spark]), values_of_spark("lag", [rows_of_spark]))
        assert told == ([row["committed"]], [row["lag"]])
        assert values_of_spark("lag_verdict", [rows_of_spark]) == [row["verdict"]]
        bad = verdict in {Verdict.BEYOND_LOG, Verdict.BEFORE_LOG, Verdict.EARLIER_TOPIC, Verdict.UNREADABLE}
        assert (row["verdict"] == "error") == bad
        [change] = make_plan(cluster.store, "g", standings, {tp: row["log_end"]}).changes
        counts = verdict not in {Verdict.NONE, Verdict.EARLIER_TOPIC, Verdict.UNREADABLE}
        assert change.changes == (not counts or row["committed"] != row["log_end"])
