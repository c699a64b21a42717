"""Checks that all judges of a group agree about every partition.

These are: describe, verify, the doctor, the plan of a reset, a member that reads its offsets, and Spark.
"""

from __future__ import annotations

import json

from legacy_consumer.offsets import ZooKeeperOffsetStore
from legacy_consumer.offsets.judgement import Verdict
from legacy_consumer.operations.admin.group_table import read_group_partitions
from legacy_consumer.operations.admin.offset_plans import make_plan, read_standings
from spark_source.offsets import COLUMNS, Facts
from zk_layout.model import TopicPartition
from zk_layout.paths import GroupPath

OUTSIDE = {
    Verdict.BEYOND_LOG: "beyond_the_log",
    Verdict.BEFORE_LOG: "before_the_log",
    Verdict.EARLIER_TOPIC: "earlier_topic",
    Verdict.UNREADABLE: "unreadable_znode",
}


def check_agreement(cluster, group):
    """Check that all judges agree about the group.

    cluster: a MemoryCluster with static members; topics of the group's offsets may be deleted.
    Returns: {partition: describe's row}.
    """
    if cluster.store.exists(GroupPath(group).path) is None:
        return {}
    described = json.loads(cluster.run("groups", "describe", group, "--json").out)
    found = {TopicPartition(row["topic"], row["partition"]): row for row in described["partitions"]}
    named = {}
    for finding in json.loads(cluster.run("doctor", "--json").out):
        if finding["subject"] == group:
            named[finding["code"]] = " ".join([finding["text"], *finding["commands"]])
    _offsets_agree(cluster, group, set(described["left"]), found, named)
    _owners_agree(cluster, group, described, found, named)
    return found


def _offsets_agree(cluster, group, left, found, named):
    standings = read_standings(cluster.store, group)
    member = ZooKeeperOffsetStore(cluster.store, group).read(sorted(found))
    spark = {
        TopicPartition(row.topic, row.partition): row
        for row in read_group_partitions(cluster.store, [group], include_unclaimed=True)
    }
    facts = Facts(
        {tp: begin for tp, (begin, _) in cluster.logs.items()},
        {tp: end for tp, (_, end) in cluster.logs.items()},
        {(group, name): "" for name in _children(cluster, f"/consumers/{group}/ids")},
    )
    assert found.keys() == standings.keys() == spark.keys()
    for tp, row in found.items():
        verdict, standing, read = Verdict(row["offset_is"]), standings[tp], member[tp]
        assert row["committed"] == standing.offset == read.offset
        assert standing.outlived == read.outlived
        assert standing.is_fragile == read.is_fragile
        assert (verdict is Verdict.EARLIER_TOPIC) == (read.outlived is not None)
        assert (verdict is Verdict.NONE) == (read.offset is read.outlived is read.problem is None)
        assert (verdict is Verdict.UNREADABLE) == (read.problem is not None) == (standing.problem is not None)
        for outside, code in OUTSIDE.items():
            is_named = verdict is outside and not left & {tp.topic, str(tp)}
            assert is_named == (f"{tp.topic}:{tp.partition}" in _commanded(named.get(code, ""))), (
                tp,
                named,
            )
        is_named = read.is_fragile and verdict not in OUTSIDE and not left & {tp.topic, str(tp)}
        assert is_named == (f"{tp.topic}:{tp.partition}" in _commanded(named.get("older_than_its_topic", ""))), tp
        assert (row["verdict"] == "error") == (verdict in OUTSIDE), (tp, row)
        told = {name: _of_spark(name, spark[tp], facts) for name in ("committed_offset", "lag", "lag_verdict")}
        assert told == {"committed_offset": row["committed"], "lag": row["lag"], "lag_verdict": row["verdict"]}, tp
        if tp not in cluster.logs:
            continue
        [change] = make_plan(cluster.store, group, standings, {tp: row["log_end"]}).changes
        counts = verdict not in {Verdict.NONE, Verdict.EARLIER_TOPIC, Verdict.UNREADABLE}
        assert change.changes == (not counts or read.is_fragile or row["committed"] != row["log_end"])


def _owners_agree(cluster, group, described, found, named):
    verified = json.loads(cluster.run("groups", "verify", group, "--json").out)
    said = {}
    for problem in verified["problems"]:
        said.setdefault(problem["code"], set()).add((problem["topic"], problem["partition"]))
    topics = {topic for one in described["members"] for topic, _ in one["subscription"]}
    subscribed = {tp for tp in found if tp.topic in topics and tp in cluster.logs}
    assert said.get("no_owner", set()) == {tuple(tp) for tp in subscribed if found[tp]["owner"] is None}
    assert ("no_owner" in said) == ("no_owner" in named)
    assert said.get("permanent_owner", set()) == {tuple(tp) for tp in found if found[tp]["hold"] == "permanent"}
    assert ("permanent_owner" in said) == ("permanent_owner" in named)
    assert ("permanent_member" in said) == ("permanent_member" in named)
    reset = described["reset"]
    is_bad = reset is not None and not reset["running"]
    assert ("reset" in said) == is_bad
    assert (verified["reset"] is not None) == (reset is not None and reset["running"])
    assert ("reset_of_nobody" in named or "reset_under_way" in named) == (reset is not None)
    checked = cluster.run("groups", "describe", group, "--check").code
    is_well = (
        not is_bad
        and not described["unreadable"]
        and all(row["verdict"] == "ok" for tp, row in found.items() if not {tp.topic, str(tp)} & {*described["left"]})
    )
    is_well = is_well and not said.keys() & {"permanent_member", "permanent_owner"}
    assert checked == (0 if is_well else 1)


def _commanded(text):
    """Return the "topic:partition" that the commands of a finding name."""
    places = set()
    for word in text.split():
        if word.startswith("--topic="):
            topic, _, numbers = word.removeprefix("--topic=").partition(":")
            places |= {f"{topic}:{number}" for number in numbers.split(",")}
    return places


def _of_spark(name, row, facts):
    [value] = next(column for column in COLUMNS if column.name == name).values([row], facts)
    return value


def _children(cluster, path):
    return cluster.store.get_children(path) if cluster.store.exists(path) is not None else ()
