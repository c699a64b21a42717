"""Operators' commands over a cluster in memory: all judge alike, and an operator can type their advice."""

from __future__ import annotations

import functools
import json
import re
import shlex
from pathlib import Path
from pkgutil import resolve_name

import pytest

from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.operations.cli import doctor, groups_describe
from legacy_consumer.operations.cli.helpers import options, watching
from tests.support.group_members import FakeClock
from tests.support.memory_cluster import REGISTRATION, GuardedStore, MemoryCluster, with_options
from zk_layout.errors import ConnectionLostError
from zk_layout.model import TopicPartition


@pytest.fixture
def cluster(monkeypatch):
    return MemoryCluster(monkeypatch)


def findings(cluster, *args):
    done = cluster.run("doctor", "--json", *args)
    return {finding["code"]: finding for finding in json.loads(done.out)}


def rows(cluster, group):
    document = json.loads(cluster.run("groups", "describe", group, "--json").out)
    return {(row["topic"], row["partition"]): row for row in document["partitions"]}


# A broker is asked only about topics that exist.


def test_looking_creates_no_topic(cluster):
    cluster.topic("t", (0, 10))
    cluster.commit("g", "t", 5)
    cluster.commit("g", "gone", 5)
    for args in (
        ["groups", "describe", "g"],
        ["groups", "describe", "--all-groups", "--kafka-format", "1.1"],
        ["doctor"],
        ["offsets", "reset", "g", "--to-earliest"],
        ["topics"],
    ):
        assert cluster.run(*args).code in {0, 1}, args
    assert cluster.created == []


# The doctor: it reports each problem, and an operator can type its advice.


@pytest.mark.parametrize("other", [["--json"], ["--format", "csv"], ["--format", "json"]], ids=" ".join)
@pytest.mark.parametrize("command", [["describe", "g", "--kafka-format", "1.1"], ["verify", "g", "--kafka-format"]])
def test_kafkas_format_and_another_one_are_refused_together(cluster, command, other):
    cluster.commit("g", "t", 0)
    done = cluster.run("groups", *command, *other)
    assert (done.code, done.out) == (2, "")
    assert "--kafka-format is a format of its own" in done.err


def test_the_doctor_counts_what_it_examined(cluster):
    cluster.topic("t", (0, 10), (0, 10))
    cluster.commit("g", "t", 10, 10)
    cluster.join("g", "a", '{"t":1}', ("t", 0), ("t", 1))
    done = cluster.run("doctor")
    assert done.code == 0
    assert done.out == "Nothing is wrong.\nLooked at 1 broker, 1 topic, 1 group, 2 partitions.\n"


@pytest.mark.parametrize("pattern", ["static", "white_list"])
def test_the_doctor_names_messages_that_no_member_reads(cluster, pattern):
    cluster.topic("t1", (0, 10), (0, 10))
    cluster.commit("down", "t1", 4, 10)
    cluster.join("idle", "a", '{"t1":1}', pattern=pattern)
    done = cluster.run("doctor", "--json")
    found = {(f["code"], f["subject"], f["severity"]): f["text"] for f in json.loads(done.out)}
    assert done.code == 1
    assert "6 messages wait, and no member reads t1/0" in found["stopped", "down", "error"]
    assert "no member owns t1/0, t1/1" in found["no_owner", "idle", "error"]
    [command] = next(f["commands"] for f in json.loads(done.out) if f["code"] == "no_owner")
    assert "Group idle: 1 member" in cluster.run(*shlex.split(command)[1:]).out


def test_the_doctor_counts_the_messages_of_a_partition_in_which_a_group_without_members_never_committed(cluster):
    cluster.topic("t", (0, 10), (4, 10), (0, 0))
    cluster.commit("g", "t", 10)
    described = cluster.run("groups", "describe", "g", "--check")
    assert (described.code, "messages wait in 1 partition that no member owns" in described.out) == (1, True)
    done = cluster.run("doctor")
    assert done.code == 1
    assert "group g: 6 messages wait, and no member reads t/1\n" in done.out


def test_the_doctor_does_not_count_messages_that_retention_took(cluster):
    cluster.topic("t", (60, 100))
    cluster.commit("g", "t", 10)
    assert "40 messages wait" in findings(cluster)["stopped"]["text"]


@pytest.mark.parametrize(("minutes_ago", "old_up_to", "code"), [(10, 6, 1), (10, 4, 0), (2, 6, 0)])
def test_the_doctor_names_a_group_that_stands_still_while_old_messages_wait(cluster, minutes_ago, old_up_to, code):
    cluster.topic("t", (0, 10))
    cluster.ago_ms = minutes_ago * 60_000
    cluster.commit("g", "t", 4)
    cluster.join("g", "a", '{"t":1}', ("t", 0))
    cluster.old_up_to[TopicPartition("t", 0)] = old_up_to
    done = cluster.run("doctor")
    assert done.code == code
    assert ("while older messages wait: t/0 at 4" in done.out) == bool(code)


def test_the_doctor_says_that_it_could_not_look_at_a_log(cluster):
    cluster.topic("t", (0, 10))
    cluster.logs.clear()
    cluster.commit("g", "t", 5)
    assert "reports the end of 1 log" in findings(cluster)["log_ends_unknown"]["text"]


def test_the_doctor_names_offsets_before_the_log_beyond_it_and_of_an_earlier_topic(cluster):
    cluster.commit("g", "u", 7)
    cluster.topic("t", (60, 100), (0, 50), (0, 50))
    cluster.topic("other", (0, 0))
    cluster.drop("other")
    cluster.topic("u", (0, 20))
    cluster.commit("g", "t", 10, 70, 40)
    found = findings(cluster)
    assert "t/0 at 10 (the log begins at 60)" in found["before_the_log"]["text"]
    assert "t/1 at 70 (the log ends at 50)" in found["beyond_the_log"]["text"]
    assert "u/0 at 7" in found["earlier_topic"]["text"]


@pytest.mark.parametrize("group", ["g", "-g"])
def test_the_doctor_names_offsets_that_are_older_than_their_topics_and_its_command_makes_them_last(
    cluster, tmp_path, group
):
    cluster.put(f"/consumers/{group}/offsets/t/0", "7")
    cluster.topic("t", (0, 20), (0, 20))
    cluster.topic("other", (0, 0))
    cluster.commit(group, "t", None, 20)
    found = findings(cluster)["older_than_its_topic"]
    assert found["text"].endswith(": t/0 at 7")
    [command] = found["commands"]
    words = shlex.split(command)[1:]
    assert "1 written again" in cluster.run(*words).out
    assert cluster.run(*with_options(words, "--execute", "--backup-dir", str(tmp_path))).code == 0
    assert "older_than_its_topic" not in findings(cluster)
    cluster.drop("other")
    assert "earlier_topic" not in findings(cluster)
    rows = json.loads(cluster.run("groups", "describe", "--json", *(["--", group] if group == "-g" else [group])).out)
    assert {row["partition"]: row["committed"] for row in rows["partitions"]} == {0: 7, 1: 20}


SICK = {
    "beyond_the_log": {"t/1": "70", "t/0": "40"},
    "before_the_log": {"cut/0": "10", "t/0": "40"},
    "unreadable_znode": {"t/1": " 7", "t/0": "40"},
    "deleted_topic": {"gone/0": "5", "t/0": "40"},
    "two gone": {"gone/0": "5", "gone 2/0": "x", "t/0": "40"},
    "earlier_topic": {"again/0": "3", "t/0": "40"},
}


@pytest.mark.parametrize("group", ["g", "it's $(odd) `g`", "-g"])
@pytest.mark.parametrize("sickness", SICK)
def test_a_command_that_the_doctor_proposes_changes_only_what_the_finding_names(cluster, tmp_path, group, sickness):
    cluster.put(f"/consumers/{group}/offsets/again/0", "3") if "again/0" in SICK[sickness] else None
    cluster.topic("t", (0, 50), (0, 50))
    cluster.topic("cut", (60, 100))
    cluster.topic("other", (0, 0))
    cluster.drop("other")
    cluster.topic("again", (0, 20))
    cluster.commit("healthy", "t", 20, 20)
    for place, data in SICK[sickness].items():
        if not place.startswith("again"):
            cluster.put(f"/consumers/{group}/offsets/{place}", data)
    sick = {f"/consumers/{group}/offsets/{place}" for place in SICK[sickness]} - {f"/consumers/{group}/offsets/t/0"}
    before = cluster.tree()
    typed = [command for finding in findings(cluster).values() for command in finding["commands"]]
    assert typed
    for command in typed:
        program, *words = shlex.split(command)
        assert program == "legacy-consumer"
        assert "--zookeeper" in words
        assert cluster.run(*words).code == 0, command
        assert cluster.tree() == before, "it was only shown"
    for command in typed:
        done = cluster.run(*with_options(shlex.split(command)[1:], "--execute", "--backup-dir", str(tmp_path)))
        assert done.code == 0, done
    after = cluster.tree()
    changed = {path for path in before | after if before.get(path) != after.get(path)}
    assert {path for path in changed if "/offsets/" in path and path.count("/") == 5} == sick
    assert findings(cluster).keys() <= {"stopped"}


def test_a_topic_of_a_name_that_no_broker_takes_spoils_no_command_that_the_doctor_proposes(cluster, tmp_path):
    """The command named all partitions of the group, and --topic took one of the names for a wrong choice."""
    cluster.topic("t", (0, 50))
    cluster.put("/consumers/g/offsets/t/0", " 7")
    for odd in ("a b", "a:b", "a:0"):
        cluster.topic(odd, (0, 50))
        cluster.put(f"/consumers/g/offsets/{odd}/0", " 7")
    typed = [shlex.split(command)[1:] for finding in findings(cluster).values() for command in finding["commands"]]
    for words in typed:
        done = cluster.run(*with_options(words, "--execute", "--backup-dir", str(tmp_path)))
        assert done.code == 0, (words, done)
    offsets = {path: data for path, data in cluster.tree().items() if path.count("/") == 5}
    assert offsets == {"/consumers/g/offsets/t/0": b"0"}


def test_a_topic_is_left_only_if_none_of_its_partitions_counts(cluster):
    cluster.topic("t", (0, 50))
    cluster.commit("g", "t", 10, 7)
    shown = json.loads(cluster.run("groups", "describe", "g", "--json").out)
    assert (shown["total_lag"], shown["left"]) == (40, ["t/1"])
    assert "no member subscribes to them: t/1\n" in cluster.run("groups", "describe", "g").out


@pytest.mark.parametrize("offset", ["3", " 7", "70"], ids=["in the log", "unreadable", "beyond the log"])
def test_topics_that_all_members_have_left_count_nowhere_and_the_proposed_command_removes_them(
    cluster, tmp_path, offset
):
    cluster.topic("t", (0, 50), (0, 50))
    cluster.topic("left", (0, 20))
    cluster.commit("g", "t", 50, 50)
    cluster.put("/consumers/g/offsets/left/0", offset)
    cluster.commit("g", "gone", 3)
    member = cluster.join("g", "a", '{"t":1}', ("t", 0), ("t", 1))
    shown = json.loads(cluster.run("groups", "describe", "g", "--json").out)
    assert [shown[key] for key in ("total_lag", "unowned", "verdict", "left")] == [0, 0, "ok", ["gone", "left"]]
    told = cluster.run("groups", "describe", "g", "--check")
    assert (told.code, "no member subscribes to them: gone, left" in told.out, "stop:" in told.out) == (0, True, False)
    assert cluster.run("groups", "verify", "g").code == 0
    done = cluster.run("doctor", "--json")
    found = {one["code"]: one for one in json.loads(done.out)}
    assert (done.code, found.keys()) == (0, {"left_topic", "deleted_topic"})
    assert "that all its members have left: left" in found["left_topic"]["text"]
    [command] = found["left_topic"]["commands"]
    words = [*shlex.split(command)[1:], "--execute", "--backup-dir", str(tmp_path)]
    before = cluster.tree("/consumers/g/offsets")
    assert cluster.run(*words).code == 1, "it is refused while a member lives"
    assert cluster.tree("/consumers/g/offsets") == before
    member.close()
    if offset == "3":
        assert "17 messages wait, and no member reads left/0" in findings(cluster)["stopped"]["text"]
    assert cluster.run(*words).code == 0
    assert before.keys() - cluster.tree("/consumers/g/offsets").keys() == {
        f"/consumers/g/offsets/{path}" for path in ("left", "left/0")
    }


@pytest.mark.parametrize("data", ["3", " 7", "70", "seven"])
@pytest.mark.parametrize(("place", "code"), [("left/0", "left_topic"), ("gone/0", "deleted_topic")])
def test_znodes_of_a_topic_that_no_member_reads_are_a_note_and_the_proposed_command_removes_them(
    cluster, tmp_path, place, code, data
):
    cluster.topic("t", (0, 50))
    cluster.topic("left", (0, 20))
    cluster.commit("g", "t", 50)
    cluster.put(f"/consumers/g/offsets/{place}", data)
    member = cluster.join("g", "a", '{"t":1}', ("t", 0))
    found = findings(cluster)
    assert {one: found[one]["severity"] for one in found} == {code: "note"}
    assert ("cannot be read" in found[code]["text"]) == (not data.isdigit())
    assert cluster.run("doctor").code == 0
    [command] = found[code]["commands"]
    member.close()
    words = shlex.split(command)[1:]
    done = cluster.run(*words, "--execute", "--backup-dir", str(tmp_path))
    assert done.code == 0, done
    assert findings(cluster) == {}


@pytest.mark.parametrize("data", ["3", "seven"])
@pytest.mark.parametrize("has_member", [False, True])
def test_no_reset_is_advised_for_a_partition_that_its_topic_does_not_have(cluster, data, has_member):
    cluster.put("/consumers/g/offsets/t/7", data)
    cluster.topic("t", (0, 50))
    cluster.commit("g", "t", 50)
    if has_member:
        cluster.join("g", "a", '{"t":1}', ("t", 0))
    found = findings(cluster)
    assert {one: (found[one]["severity"], found[one]["commands"]) for one in found} == {
        "deleted_partition": ("note", [])
    }


def test_every_tool_finds_a_group_sound_that_owns_all_partitions_of_a_topic_made_anew_with_fewer(cluster):
    cluster.topic("t", (0, 50))
    cluster.commit("g", "t", 50, 7, 9)
    cluster.join("g", "a", '{"t":1}', ("t", 0))
    commands = [("groups", "describe", "g", "--check"), ("groups", "verify", "g"), ("doctor",)]
    assert [cluster.run(*command).code for command in commands] == [0, 0, 0]


@pytest.mark.parametrize("ephemeral", [True, False])
def test_a_member_that_no_session_ends_is_not_well(cluster, ephemeral):
    cluster.topic("t", (0, 50))
    cluster.commit("g", "t", 50)
    cluster.join("g", "a", '{"t":1}', ("t", 0), ephemeral=ephemeral)
    assert cluster.run("groups", "describe", "g", "--check").code == (0 if ephemeral else 1)


def test_the_age_of_stale_groups_is_that_which_was_asked_for(cluster):
    cluster.topic("t", (0, 5))
    cluster.ago_ms = 10_000
    cluster.commit("g", "t", 5)
    assert "stale_groups" not in findings(cluster, "--stale-after", "1d")
    assert "--older-than 1s" in findings(cluster, "--stale-after", "1s")["stale_groups"]["commands"][0]


def test_the_doctors_commands_have_each_property_that_it_was_given_but_no_secret(cluster):
    cluster.topic("t", (0, 5))
    cluster.commit("g", "t", 9)
    plain = ("ssl.key.location=/k.pem", "sasl.kerberos.keytab=/k", "sasl.oauthbearer.token.endpoint.url=https://t")
    secret = ("zookeeper.auth.digest=u:hidden", "ssl.key.password=hidden", "rdkafka.ssl.key.pem=hidden")
    found = findings(cluster, *(f"--property={pair}" for pair in (*plain, *secret)))
    [command] = found["beyond_the_log"]["commands"]
    words = shlex.split(command)
    assert set(plain) < set(words)
    assert {f"{pair.partition('=')[0]}=..." for pair in secret} < set(words)
    assert "hidden" not in str(found)


@pytest.mark.parametrize("lost", ["examine_topics", "examine_groups"])
def test_the_doctor_shows_what_it_found_before_zookeeper_went_away_and_says_that_it_is_not_all(
    cluster, monkeypatch, lost
):
    def examine(*args, **kwargs):
        yield from ()
        raise ConnectionLostError("/consumers")

    cluster.store.delete("/controller")
    monkeypatch.setattr(doctor, lost, examine)
    done = cluster.run("doctor", "--json")
    assert (done.code, [finding["code"] for finding in json.loads(done.out)]) == (1, ["no_controller", "not_examined"])
    assert "ended early" in cluster.run("doctor").out


def migration_record(phase):
    record = {"version": 1, "phase": phase, "at_ms": 1, "partitions": 1, "backup": None, "history": [[phase, 1]]}
    return json.dumps({**record, "left_out": {}, "zxid": 1})


@pytest.mark.parametrize(
    ("phase", "is_reported"),
    [(None, True), ("applied", False), ("rolling back", False), ("rolled back", True), ("finished", False)],
)
def test_the_doctor_is_silent_about_waiting_messages_only_while_consumers_of_kafka_read_them(
    cluster, phase, is_reported
):
    cluster.topic("t", (0, 50))
    cluster.commit("g", "t", 5)
    if phase is not None:
        cluster.put("/consumers/g/migration", migration_record(phase))
    assert ("stopped" in findings(cluster)) is is_reported
    assert cluster.run("doctor").code == int(is_reported)


def test_the_command_that_the_doctor_proposes_for_unused_groups_removes_just_those_that_it_names(cluster, tmp_path):
    cluster.topic("t", (0, 50))
    cluster.ago_ms = 40 * 86_400_000
    for group, phase in (("a", None), ("b", "rolled back"), ("c", "finished"), ("d", "applied"), ("e", "?")):
        cluster.commit(group, "t", 50)
        if phase is not None:
            cluster.put(f"/consumers/{group}/migration", migration_record(phase))
    cluster.ago_ms = 0
    found = findings(cluster)["stale_groups"]
    assert found["text"].endswith(": a, b, c")
    [command] = found["commands"]
    done = cluster.run(*with_options(shlex.split(command)[1:], "--execute", "--backup-dir", str(tmp_path)))
    assert done.code == 0, done
    assert set(cluster.store.get_children("/consumers")) == {"d", "e"}


@pytest.mark.parametrize("others", [[], ["other"]], ids=["alone", "beside another one"])
@pytest.mark.parametrize("place", ["cli.{command}.wanted_groups", "admin.{library}.read_members"])
@pytest.mark.parametrize(
    ("command", "library", "options"),
    [
        ("groups_describe", "groups", ["--check"]),
        ("groups_describe", "groups", ["--json"]),
        ("groups_describe", "groups", ["--kafka-format", "1.1"]),
        ("groups_verify", "verification", []),
        ("groups_verify", "verification", ["--kafka-format"]),
        ("groups_verify", "verification", ["--json"]),
        ("groups_members", "groups", []),
    ],
    ids=str,
)
def test_a_named_group_that_is_deleted_while_a_command_looks_is_an_error(
    cluster, monkeypatch, command, library, options, place, others
):
    cluster.topic("t", (0, 50))
    for group in ("billing", "other"):
        cluster.commit(group, "t", 50)
    name = "legacy_consumer.operations." + place.format(command=command, library=library)
    real = resolve_name(name)

    def meanwhile(*args, **kwargs):
        found = real(*args, **kwargs)
        if cluster.store.exists("/consumers/billing"):
            for path in sorted(cluster.paths("/consumers/billing"), reverse=True):
                cluster.store.delete(path)
        return found

    monkeypatch.setattr(name, meanwhile)
    done = cluster.run("groups", command.removeprefix("groups_"), *others, "billing", *options)
    assert (done.code, done.out) == (1, "")
    assert "group 'billing' does not exist" in done.err


# Requests for a reset.


A_REQUEST = b'{"version":1,"id":"r","state":"prepare","partitions":{"t":[0]}}'


@pytest.mark.parametrize(
    ("ephemeral", "data", "age_s", "code", "said"),
    [
        (False, A_REQUEST, 0, "reset_of_nobody", "no session"),
        (True, b"nonsense", 0, "reset_of_nobody", "is no request that can be read"),
        (True, A_REQUEST, 130, "reset_under_way", "members have waited long enough, and go on"),
        (
            True,
            A_REQUEST,
            0,
            "reset_under_way",
            "of t/0 (request 'r', state prepare): members hand out nothing of them",
        ),
        (True, A_REQUEST.replace(b"prepare", b"applied"), 0, "reset_under_way", "has written new offsets of t/0"),
    ],
)
@pytest.mark.parametrize("group", ["g", "it's g"])
def test_a_request_for_a_reset_is_judged_alike_by_every_tool(cluster, group, ephemeral, data, age_s, code, said):
    """A request that runs is a note; one that no command ends is an error until it is deleted."""
    is_running = ephemeral and data != b"nonsense" and not age_s
    cluster.topic("t", (0, 10))
    cluster.commit(group, "t", 10)
    cluster.join(group, "a", '{"t":1}', ("t", 0))
    path = f"/consumers/{group}/requests/reset"
    cluster.ago_ms = 1000 * age_s
    cluster.store.create(path, data, ephemeral=ephemeral, make_parents=True)
    cluster.ago_ms = 0

    def codes():
        looks = (["groups", "verify", group], ["groups", "describe", group, "--check"], ["doctor"])
        return {cluster.run(*look).code for look in looks}

    assert codes() == ({0} if is_running else {1})
    finding = findings(cluster)[code]
    document = json.loads(cluster.run("groups", "describe", group, "--json").out)["reset"]
    assert said in finding["text"]
    assert finding["severity"] == ("note" if is_running else "error")
    assert finding["advice"].endswith(f"delete {shlex.quote(path)}")
    assert (document["text"] in finding["text"], document["advice"]) == (True, finding["advice"])
    assert (document["running"], document["holds"]) == (is_running, is_running and b"prepare" in data)
    told = f"{document['text']}; {document['advice']}"
    assert told in cluster.run("groups", "verify", group).out
    assert told in cluster.run("groups", "describe", group).out
    assert document["session_id"] == (f"0x{cluster.store.exists(path).ephemeral_owner:x}")
    cluster.store.delete(path)
    assert code not in findings(cluster)
    assert codes() == {0}


# Ghosts.


def test_a_registration_that_no_session_holds_is_neither_sound_nor_healthy(cluster):
    cluster.topic("t", (0, 50))
    cluster.commit("g", "t", 50)
    cluster.join("g", "ghost", '{"t":1}', ("t", 0), ephemeral=False)
    verified = cluster.run("groups", "verify", "g")
    assert verified.code == 1
    assert "/consumers/g/ids/ghost is not ephemeral" in verified.out
    assert "/consumers/g/owners/t/0 is not ephemeral" in verified.out
    found = findings(cluster)
    assert {"permanent_member", "permanent_owner"} <= found.keys()
    refused = cluster.run("offsets", "reset", "g", "--to-earliest", "--execute", "--no-backup")
    assert refused.code == 1
    assert "not ephemeral" in refused.err


@pytest.mark.parametrize("has_member", [False, True])
def test_an_owner_that_no_session_holds_is_neither_sound_nor_healthy(cluster, has_member):
    cluster.topic("t", (0, 50), (0, 50))
    cluster.commit("g", "t", 50, 50)
    if has_member:
        cluster.join("g", "m", '{"t":1}', ("t", 0))
    cluster.put("/consumers/g/owners/t/1", "m-0")
    assert "permanent_owner" in findings(cluster)
    for command in (["groups", "verify", "g"], ["groups", "describe", "g", "--check"], ["doctor"]):
        done = cluster.run(*command)
        assert (done.code, "not ephemeral" in done.out) == (1, True), done
    assert "delete the znode with ZooKeeper's own client" in cluster.run("groups", "verify", "g").out


# One judgement.


def test_an_offset_of_an_earlier_topic_counts_as_none_for_describe_and_reset(cluster, tmp_path):
    cluster.put("/brokers/topics/other", "")
    cluster.store.delete("/brokers/topics/other")
    cluster.commit("g", "t", 100)
    cluster.topic("t", (0, 100))
    row = rows(cluster, "g")["t", 0]
    assert (row["committed"], row["lag"], row["verdict"], row["offset_is"]) == (
        None,
        100,
        "error",
        "of an earlier topic",
    )
    shown = cluster.run("groups", "describe", "g").out
    assert "100 ^" in shown
    assert "^ the offset was committed for an earlier topic" in shown
    cluster.put("/consumers/g/owners/t")
    as_kafka = cluster.run("groups", "describe", "g", "--kafka-format", "1.1").out
    assert as_kafka.split()[-6:] == ["t", "0", "100", "100", "0", "-"], "as Kafka's tool, which knows no better"
    planned = cluster.run("offsets", "reset", "g", "--to-latest").out
    assert "1 new" in planned
    assert "100 of an earlier topic" in planned
    done = cluster.run("offsets", "reset", "g", "--to-latest", "--execute", "--backup-dir", str(tmp_path))
    assert done.code == 0
    assert rows(cluster, "g")["t", 0]["lag"] == 0


def test_a_group_that_has_committed_nothing_while_messages_wait_is_not_ok(cluster):
    cluster.topic("t", (0, 10), (5, 5))
    cluster.join("idle", "a", '{"t":1}')
    cluster.join("fresh", "b", '{"t":1}', ("t", 0), ("t", 1))
    assert [row["verdict"] for row in rows(cluster, "idle").values()] == ["stop", "ok"]
    assert [row["verdict"] for row in rows(cluster, "fresh").values()] == ["unknown", "ok"]
    assert (
        "nothing is committed in 1 partition whose logs hold messages" in cluster.run("groups", "describe", "fresh").out
    )


@pytest.mark.parametrize(("offset", "code"), [(10, 0), (4, 1), (12, 1), (None, 1)])
def test_describe_tells_by_its_exit_code_on_request(cluster, offset, code):
    cluster.topic("t", (0, 10))
    cluster.put("/consumers/g/owners/t")
    cluster.commit("g", "t", offset)
    assert cluster.run("groups", "describe", "g").code == 0
    assert cluster.run("groups", "describe", "g", "--check").code == code


def test_describe_tells_programs_of_a_group_that_may_not_be_read_nothing_but_that_it_is_an_error(cluster):
    cluster.topic("t", (0, 50))
    cluster.commit("closed", "t", 5)
    cluster.forbidden.append("/consumers/closed/")
    done = cluster.run("groups", "describe", "closed", "--json")
    shown = json.loads(done.out)
    assert (done.code, shown["verdict"]) == (1, "error")
    assert shown["reason"] == shown["problem"] != ""
    assert [shown[key] for key in ("total_lag", "unowned", "coordination")] == [None] * 3


def test_a_sum_of_lags_says_how_many_it_lacks_and_of_none_that_is_known_there_is_no_sum(cluster):
    cluster.topic("t", (0, 50), (0, 50))
    cluster.commit("g", "t", 5, 5)

    def shown():
        document = json.loads(cluster.run("groups", "describe", "g", "--json").out)
        return document["total_lag"], document["unknown_lags"]

    assert shown() == (90, 0)
    del cluster.logs[TopicPartition("t", 0)]
    assert shown() == (45, 1)
    assert "lag 45 and 1 unknown" in cluster.run("groups", "describe", "g").out
    cluster.logs.clear()
    assert shown() == (None, 2)
    assert "lag unknown" in cluster.run("groups", "describe", "g").out


@pytest.mark.parametrize("log", [(0, 0), (7, 7)])
def test_an_empty_log_in_which_nothing_was_committed_has_a_lag_of_0_and_none_for_kafkas_tools(cluster, log):
    cluster.topic("t", log)
    cluster.join("g", "m", '{"t":1}', ("t", 0))
    assert rows(cluster, "g")["t", 0]["lag"] == 0
    assert cluster.run("groups", "describe", "g", "--check").code == 0
    printed = cluster.run("groups", "describe", "g", "--kafka-format", "1.1").out
    assert printed.splitlines()[-1].split() == ["t", "0", "-", str(log[1]), "-", "m"]


def test_a_misspelt_topic_is_an_error_and_one_that_the_group_does_not_read_is_none(cluster):
    cluster.topic("t", (0, 10))
    cluster.topic("u", (0, 10))
    cluster.commit("g", "t", 5)
    assert cluster.run("groups", "describe", "g", "--topic", "u").code == 0
    done = cluster.run("groups", "describe", "g", "--topic", "tt")
    assert (done.code, done.err) == (
        1,
        "Error: topic 'tt' does not exist: check its name, and the chroot if zookeeper.connect is set\n",
    )


def test_a_reset_says_which_moment_it_understood(cluster):
    cluster.topic("t", (0, 10))
    cluster.commit("g", "t", 5)
    done = cluster.run("offsets", "reset", "g", "--to-time", "2026-11-21T14:30:00+01:00")
    assert "To the first messages of 2026-11-21 13:30:00.000 UTC or later." in done.out


# One bad group costs the others nothing.


BAD = {
    "group closed": lambda c: (c.commit("bad", "t", 5), c.forbidden.append("/consumers/bad")),
    "record closed": lambda c: (c.put("/consumers/bad/migration"), c.forbidden.append("/consumers/bad/migration")),
    "ids closed": lambda c: (c.put("/consumers/bad/ids/x"), c.forbidden.append("/consumers/bad/ids")),
    "owners closed": lambda c: (c.put("/consumers/bad/owners/t/0", "x-0"), c.forbidden.append("/consumers/bad/owners")),
    "offsets closed": lambda c: (c.commit("bad", "t", 5), c.forbidden.append("/consumers/bad/offsets")),
    "one offset closed": lambda c: (c.commit("bad", "t", 5), c.forbidden.append("/consumers/bad/offsets/t/0")),
    "unreadable offset": lambda c: c.commit("bad", "t", "7\n"),
    "unreadable member": lambda c: c.put("/consumers/bad/ids/x", "?"),
    "absurd member": lambda c: c.put("/consumers/bad/ids/x", REGISTRATION % ('{"t":2147483647}', "static")),
    "deep member": lambda c: c.put("/consumers/bad/ids/x", "[" * 100_000),
    "ghosts": lambda c: c.join("bad", "x", '{"t":1}', ("t", 0), ephemeral=False),
}
FAILING = {
    "group closed": "list describe members verify doctor topics",
    "record closed": "list doctor",
    "ids closed": "describe members verify doctor",
    "owners closed": "list describe members verify doctor",
    "offsets closed": "list describe members verify doctor topics",
    "one offset closed": "list describe members verify doctor",
    "unreadable offset": "doctor",
    "unreadable member": "verify doctor",
    "absurd member": "verify doctor",
    "deep member": "verify doctor",
    "ghosts": "verify doctor",
}
ABOUT_ALL = (
    ("groups", "list", "--details"),
    ("groups", "describe", "--all-groups"),
    ("groups", "members", "--all-groups"),
    ("groups", "verify", "--all-groups"),
    ("topics",),
    ("doctor",),
)


@pytest.mark.parametrize("args", ABOUT_ALL, ids=" ".join)
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("zookeeper", ["3.8", "3.9"])
def test_a_command_about_all_groups_shows_the_others_if_one_is_faulty(cluster, args, bad, zookeeper):
    cluster.tells_existence = zookeeper != "3.9"
    cluster.topic("t", (0, 10))
    for group in ("a-good", "c-good"):
        cluster.commit(group, "t", 10)
        cluster.join(group, f"{group}_m", '{"t":1}', ("t", 0))
    sound = cluster.run(*args)
    assert sound.code == 0, sound
    BAD[bad](cluster)
    done = cluster.run(*args)
    assert "a defect" not in done.err
    for group in ("a-good", "c-good"):
        assert done.out.count(group) == sound.out.count(group), "a row as before, and no finding"
    if args == ("doctor",):
        assert "1 topic, 3 groups" in done.out, "all are examined"
    name = args[1] if args[0] == "groups" else args[0]
    failing = FAILING[bad].split()
    if bad == "ids closed" and zookeeper == "3.9":
        failing.append("list")  # older servers tell how many members there are
    assert done.code == (1 if name in failing else 0), done
    if done.code:
        assert "bad" in done.out + done.err


@pytest.mark.parametrize("zookeeper", ["3.8", "3.9"])
@pytest.mark.parametrize("command", ["describe", "verify", "members"])
def test_a_group_that_may_not_be_read_hides_no_other_group_that_is_named_beside_it(cluster, command, zookeeper):
    cluster.tells_existence = zookeeper != "3.9"
    cluster.topic("t", (0, 10))
    cluster.commit("good", "t", 10)
    BAD["group closed"](cluster)
    done = cluster.run("groups", command, "bad", "good")
    assert (done.code, done.err) == (1, "")
    assert re.search("/consumers/bad\\S* may not be accessed", done.out)
    assert re.search("Group good(:| is sound:) 0 members", done.out)
    assert cluster.run("groups", command, "misspelt", "good").err.startswith("Error: group 'misspelt' does not exist")


def test_a_hundred_bad_groups_are_each_named(cluster):
    cluster.topic("t", (0, 10))
    for number in range(100):
        cluster.commit(f"g{number}", "t", 10)
    cluster.forbidden += [f"/consumers/g{number}/offsets" for number in range(0, 100, 2)]
    done = cluster.run("groups", "describe", "--all-groups")
    assert done.out.count("cannot be shown: /consumers/g") == 50
    assert done.out.count("1 partition") == 50


def test_thousands_of_odd_znodes_are_a_few_lines(cluster):
    cluster.topic("t", (0, 10))
    subscription = json.dumps({f"t{number}": 1 for number in range(500)})
    cluster.join("bad", "big", subscription)
    for number in range(200):
        cluster.put(f"/consumers/bad/offsets/t/x{number}", "1")
        cluster.put(f"/consumers/bad/ids/x{number:03}", "?")
    for args in (("groups", "describe", "bad"), ("groups", "members", "bad"), ("groups", "verify", "bad"), ("doctor",)):
        done = cluster.run(*args)
        assert done.err.count("\n") < 20, args
        rows = len(re.findall("(?m)^x[0-9]{3} ", done.out))
        assert done.out.count("\n") - rows < 150, args
        assert max(map(len, done.out.splitlines())) < 2000, args


# Text that other clients write.


STRANGE = "\x1b]0;PWNED\x07\x1b[2J\x1b[31mhi\rfake\n12:00:00 ERROR forged\u202egnp\x9b1m\x7f\u2028end"
ODD_NAME = "na\u202eme\u2028x[red][link=x]y"
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")


def fill_with_strange_text(cluster):
    def registration(subscription, pattern="static"):
        return json.dumps({"version": 1, "subscription": subscription, "pattern": pattern, "timestamp": "1"})

    cluster.topic("t", (0, 10), (0, 10), (0, 10))
    for group in ("evil", f"e{ODD_NAME}"):
        znodes = {
            "ids/m1": registration({STRANGE: 1, "t": 2}),
            "ids/m2": registration({STRANGE + "(": 1}, "white_list"),
            "ids/m3": STRANGE,
            f"ids/m{ODD_NAME}": registration({"t": 1}),
            "ids/m4": registration({"t": 1}, STRANGE),
            "owners/t/0": f"{STRANGE}-0",
            "owners/t/1": STRANGE,
            "owners/t/2": b"\x1b\xff\xfe-0",
            "offsets/t/0": STRANGE,
            "offsets/t/1": "5",
            f"offsets/{ODD_NAME}/0": "5",
            f"offsets/t/{ODD_NAME}": "5",
            "migration": json.dumps({"version": 1, "state": STRANGE, "group": STRANGE}),
        }
        for path, data in znodes.items():
            cluster.put(f"/consumers/{group}/{path}", data)
    cluster.commit(f"free{ODD_NAME}", "t", 5)
    cluster.commit("free", "t", STRANGE, 5)
    cluster.commit("free", ODD_NAME, 5)
    cluster.put("/consumers/mig/migration", STRANGE)
    cluster.commit("mig", "t", 5)
    cluster.put("/brokers/ids/98", STRANGE)
    odd_broker = {"version": 1, "host": STRANGE, "port": 1, "jmx_port": -1, "timestamp": STRANGE}
    cluster.put("/brokers/ids/99", json.dumps(odd_broker))
    endpoints = {"endpoints": [f"PLAINTEXT://{STRANGE}:1", STRANGE], "rack": STRANGE, "timestamp": "1"}
    cluster.put("/brokers/ids/97", json.dumps({**odd_broker, "version": 3, **endpoints}))
    cluster.put(f"/brokers/topics/{ODD_NAME}", '{"version":1,"partitions":{"0":[99],"1":[0]}}')
    cluster.put("/brokers/topics/evil", STRANGE)


ABOUT_STRANGE = [
    *(("groups", verb, *some) for verb in ("describe", "members", "verify") for some in (["--all-groups"], ["evil"])),
    ("groups", "list"),
    ("groups", "list", "--details"),
    ("groups", "describe", "evil", "--kafka-format", "1.1"),
    ("groups", "describe", "evil", "--kafka-format", "checker"),
    ("groups", "describe", f"no{STRANGE}"),
    ("groups", "delete", "evil"),
    ("groups", "prune", "--older-than", "1s"),
    ("topics",),
    ("brokers",),
    ("doctor",),
    ("offsets", "export", "free", "--json"),
    ("offsets", "reset", "evil", "--to-latest"),
    ("offsets", "reset", "free", "--to-latest", "--topic", "t"),
    ("offsets", "reset", "free", "--to-latest", "--topic", STRANGE),
    ("offsets", "reset", "free", "--to-latest", "--execute", "--no-backup"),
    ("offsets", "reset", "evil", "--to-latest", "--execute", "--no-backup"),
    ("offsets", "copy", "free", "free2"),
    ("migrate", "plan", "evil"),
    ("migrate", "plan", "mig"),
    ("migrate", "status"),
    ("migrate", "verify", "mig"),
]


@pytest.mark.parametrize("options", [(), ("-v",), ("-vv",), ("--json",), ("--format", "csv")], ids=" ".join)
@pytest.mark.parametrize("args", ABOUT_STRANGE, ids=lambda args: " ".join(args).encode("unicode_escape").decode())
def test_nothing_that_a_stranger_wrote_moves_the_cursor_or_forges_a_line(cluster, args, options):
    fill_with_strange_text(cluster)
    done = cluster.run(*args, *options)
    if "No such option" in done.err:
        return
    assert done.code in {0, 1, 2}, done.err
    for text in (done.out, done.err):
        assert HARMFUL.findall(text.replace("\r\n", "")) == []
        assert not any(line.startswith(("fake", "12:00:00 ERROR")) for line in text.splitlines())


def test_a_name_that_is_a_formula_stands_in_csv_as_it_is_and_the_help_warns_of_it(cluster):
    """A changed name would be the name of no group, so the user of a spreadsheet must import the CSV as text."""
    cluster.topic("t", (0, 50))
    cluster.commit("=1+1", "t", 5)
    assert cluster.run("groups", "list", "--format", "csv").out.splitlines() == ["group", "=1+1"]
    assert "a spreadsheet must import CSV as text" in " ".join(cluster.run("groups", "list", "--help").out.split())


# A reset under members, and files that were cut


def test_a_live_reset_waits_for_the_owner_of_a_partition_that_a_member_is_about_to_claim(cluster):
    cluster.topic("t", (0, 50), (0, 50))
    cluster.commit("g", "t", 5, 5)
    cluster.join("g", "a", '{"t":1}')
    words = ["offsets", "reset", "g", "--to-offset", "7", "--live", "--timeout", "0.1", "--execute", "--no-backup"]
    done = cluster.run(*words)
    assert done.code == 1
    assert "from the next owner of t/0, the next owner of t/1; stop JVM members" in done.err
    assert {data for path, data in cluster.tree("/consumers/g/offsets").items() if path[-1].isdigit()} == {b"5"}


def test_a_live_reset_names_a_member_that_joined_in_the_moment_of_the_write(cluster, monkeypatch):
    cluster.topic("t", (0, 50))
    cluster.commit("g", "t", 5)
    cluster.join("g", "a", '{"other":1}')

    class Overtaken(GuardedStore):
        def multi(self, ops, **options):
            if cluster.store.exists("/consumers/g/ids/b") is None:
                cluster.join("g", "b", '{"t":1}')
            return super().multi(ops, **options)

    monkeypatch.setattr(options, "KazooStore", lambda _: Overtaken(cluster.server, ()))
    done = cluster.run("offsets", "reset", "g", "--to-offset", "7", "--live", "--execute", "--no-backup")
    assert done.code == 0, done
    assert "Warning: b joined group g in the moment of the write: if it is of the JVM it may have read" in done.err
    assert cluster.tree()["/consumers/g/offsets/t/0"] == b"7"


def test_a_clock_that_is_set_back_hides_no_stall_from_who_watches(cluster, monkeypatch):
    cluster.topic("t", (0, 50))
    cluster.commit("g", "t", 5)
    cluster.join("g", "m", '{"t":1}', ("t", 0))
    clock = FakeClock()
    clock.wall_ms = lambda: -clock.monotonic()

    def look_some_times(_, print_once, **options):
        for _ in range(5):
            print_once()
            clock.now += 60
        return 0

    monkeypatch.setattr(groups_describe, "SystemClock", lambda: clock)
    monkeypatch.setattr(groups_describe, "watch", look_some_times)
    looks = [json.loads(line) for line in cluster.run("groups", "describe", "g", "--watch", "--json").out.splitlines()]
    found = [[row["verdict"] for row in look["partitions"]] for look in looks]
    assert (found[0], found[-1]) == (["ok"], ["stall"])


@pytest.mark.parametrize("has_broker", [True, False])
def test_a_watch_on_a_screen_says_why_no_lag_is_known(cluster, monkeypatch, has_broker):
    cluster.topic("t", (0, 50))
    cluster.commit("g", "t", 5)
    if not has_broker:
        cluster.store.delete("/brokers/ids/0")
    screen = []
    monkeypatch.setattr(groups_describe, "watch", lambda draw, *_, **__: screen.extend(map(str, draw())) or 0)
    assert cluster.run("groups", "describe", "g", "--watch").code == 0
    told = "Warning: log ends and lag are not known: no broker is registered in ZooKeeper"
    assert any(line.startswith(told) for line in screen) != has_broker


def test_a_watch_asks_kafka_for_its_offsets_again_after_it_gave_no_answer(cluster, monkeypatch):
    cluster.topic("t", (0, 50))
    cluster.commit("g", "t", 5)
    cluster.put("/consumers/g/owners/t")
    answers = iter([None, None, {TopicPartition("t", 0): 40}, None, {TopicPartition("t", 0): 41}])

    def read(*_):
        answer = next(answers)
        if answer is None:
            raise BrokersUnavailableError("no coordinator answers")
        return answer

    looks = iter([True, True, True, True, False])
    monkeypatch.setattr(groups_describe, "read_offsets_in_kafka", read)
    monkeypatch.setattr(watching, "_sleep", lambda *_: next(looks))
    run = cluster.run("groups", "describe", "g", "--kafka-format", "checker", "--watch")
    assert re.findall(r"(?m)^g +t +0 +(\d+)", run.out) == ["5", "5", "40", "5", "41"]
    told = "Warning: offsets are those in ZooKeeper, Kafka does not tell its own: no coordinator answers"
    assert run.err.splitlines() == [told, told]


@pytest.mark.parametrize(
    ("command", "begin"),
    [("describe --json", "{"), ("members --json", "["), ("describe --kafka-format 1.1", "TOPIC"), ("describe", "\x1b")],
)
def test_a_watch_prints_on_a_terminal_too_what_is_for_programs(cluster, monkeypatch, command, begin):
    cluster.topic("t", (0, 50))
    cluster.commit("g", "t", 5)
    cluster.join("g", "m", '{"t":1}', ("t", 0))
    monkeypatch.setattr(watching, "is_terminal", lambda _: True)
    monkeypatch.setattr(watching, "_sleep", lambda *_: False)
    monkeypatch.setattr(watching, "Console", functools.partial(watching.Console, force_terminal=True))
    run = cluster.run("groups", *command.split(), "g", "--watch")
    assert (run.code, run.out.lstrip()[:1]) == (0, begin[:1])


def test_a_lost_connection_ends_no_watch_that_is_written_into_a_file(cluster, monkeypatch):
    cluster.topic("t", (0, 50))
    cluster.commit("g", "t", 5)
    looks = iter([None, None, ConnectionLostError("lost"), ConnectionLostError("lost"), None, KeyboardInterrupt()])
    real = groups_describe.describe_groups

    def describe(*args, **kwargs):
        if (error := next(looks)) is not None:
            raise error
        return real(*args, **kwargs)

    monkeypatch.setattr(groups_describe, "describe_groups", describe)
    monkeypatch.setattr(watching, "_sleep", lambda *_: True)
    done = cluster.run("groups", "describe", "g", "--watch", "--json")
    assert [json.loads(line)["total_lag"] for line in done.out.splitlines()] == [45] * 3
    assert done.err.count("measurements are missing from here on: lost") == 1


def test_the_deletion_of_a_topic_is_not_told_of_groups_that_have_nothing_of_it(cluster, tmp_path):
    cluster.commit("g", "t", 5)
    cluster.commit("other", "u", 5)
    delete = ["groups", "delete", "g", "other", "--topic", "t"]
    for words in ([], ["--execute", "--backup-dir", str(tmp_path)]):
        done = cluster.run(*delete, *words)
        assert (done.code, "other" in done.out) == (0, False), done
        assert "Note: left out, without a znode of topic t: other\n" in done.err
    [file] = tmp_path.iterdir()
    assert list(json.loads(file.read_text())["offsets"]) == ["g"]
    assert cluster.run(*delete).code == 1


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize(
    "words",
    [["groups", "describe", "--check"], ["groups", "members"], ["groups", "verify"], ["offsets", "export"]],
    ids=" ".join,
)
def test_a_look_at_all_groups_says_that_there_is_none(cluster, words, form):
    done = cluster.run(*words, "--all-groups", *form)
    assert (done.code, done.err) == (0, "There is no group in /consumers.\n")


@pytest.mark.parametrize(
    "words",
    [
        ["offsets", "import", "/dev/null", "--no-check", "--clamp"],
        ["offsets", "reset", "g", "--to-earliest", "--of-earlier-topics"],
        ["offsets", "reset", "g", "--to-earliest", "--no-backup", "--backup-dir", "."],
        ["groups", "delete", "g", "--no-backup", "--backup-dir", "."],
        ["groups", "prune", "--older-than", "1d", "--json", "--format", "csv"],
        ["groups", "list", "--format", "csv", "--json"],
    ],
    ids=" ".join,
)
def test_an_option_that_would_have_no_effect_beside_another_is_misuse(cluster, words):
    cluster.commit("g", "t", 5)
    done = cluster.run(*words)
    assert (done.code, done.out) == (2, ""), done


def test_a_watch_of_a_group_that_is_deleted_ends(cluster, monkeypatch):
    monkeypatch.setattr(watching, "_sleep", lambda *_: cluster.store.delete("/consumers/g") or True)
    cluster.put("/consumers/g")
    done = cluster.run("groups", "members", "g", "--watch", "--json")
    assert (done.code, done.out) == (1, "[]\n")
    assert "group 'g' does not exist" in done.err


@pytest.mark.parametrize("live", [True, False])
def test_an_import_tells_programs_which_backup_holds_each_group(cluster, tmp_path, live):
    cluster.topic("t", (0, 50))
    for group in ("a", "b"):
        cluster.commit(group, "t", 5)
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"version": 1, "offsets": {"a": {"t": {"0": 7}}, "b": {"t": {"0": 8}}}}))
    backups = tmp_path / "backups"
    backups.mkdir()
    words = ["offsets", "import", str(file), *(["--live"] if live else []), "--execute", "--backup-dir", str(backups)]
    done = cluster.run(*words, "--json")
    assert done.code == 0, done
    said = json.loads(done.out)
    held = {one["group"]: json.loads(Path(one["backup"]).read_text())["offsets"] for one in said["groups"]}
    both = {group: {"t": {"0": 5}} for group in ("a", "b")}
    assert held == ({group: {group: both[group]} for group in both} if live else dict.fromkeys(both, both))
    assert said["backup"] == (None if live else said["groups"][0]["backup"])


@pytest.mark.parametrize("form", ["/consumers/g/offsets/t/0:{}", "t,0,{}", "g,t,0,{}"])
def test_a_file_of_lines_that_was_cut_in_its_last_number_is_refused(cluster, tmp_path, form):
    cluster.topic("t", (0, 50))
    cluster.commit("g", "t", 5)
    file = tmp_path / "offsets.txt"
    file.write_text(form.format(3))
    words = ["offsets", "reset", "g", "--from-file", str(file)]
    done = cluster.run(*words)
    assert (done.code, "line 1: the line has no newline at its end: the file is cut" in done.err) == (1, True), done
    file.write_text(form.format(34) + "\n")
    assert cluster.run(*words).code == 0


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-14:00", "9999-12-31", "2100-01-01T00:00:01Z"])
def test_a_time_after_all_clusters_is_refused_in_a_line(cluster, time):
    cluster.topic("t", (0, 50))
    cluster.commit("g", "t", 5)
    done = cluster.run("offsets", "reset", "g", "--to-time", time)
    assert (done.code, done.err.splitlines()[-1][:14]) == (2, "Error: Invalid")


@pytest.mark.parametrize("file", [".", "", "nowhere/offsets.json"])
def test_an_export_that_cannot_be_written_is_an_error_of_one_line(cluster, file):
    cluster.topic("t", (0, 50))
    cluster.commit("g", "t", 5)
    done = cluster.run("offsets", "export", "g", "--output", file)
    assert (done.code, len(done.err.splitlines()), "cannot be written" in done.err) == (1, 1, True)


@pytest.mark.parametrize("place", ["cli.offsets_export.read_standings", "admin.offset_plans.read_group_partitions"])
def test_an_export_of_all_groups_has_the_others_if_one_is_deleted_meanwhile(cluster, monkeypatch, place):
    cluster.topic("t", (0, 50))
    real = resolve_name(f"legacy_consumer.operations.{place}")

    def meanwhile(store, groups, *args, **kwargs):
        if "b" in groups and cluster.store.exists("/consumers/b"):
            for path in sorted(cluster.paths("/consumers/b"), reverse=True):
                cluster.store.delete(path)
        return real(store, groups, *args, **kwargs)

    monkeypatch.setattr(f"legacy_consumer.operations.{place}", meanwhile)
    for names, code, exported in ((["--all-groups"], 0, ["a", "c"]), (["a", "b", "c"], 1, [])):
        for group in "abc":
            if cluster.store.exists(f"/consumers/{group}") is None:
                cluster.commit(group, "t", 5)
        done = cluster.run("offsets", "export", *names, "--format", "zk")
        assert (done.code, done.out.splitlines()) == (code, [f"/consumers/{group}/offsets/t/0:5" for group in exported])
        assert ("group 'b' does not exist" in done.err) == (code == 1)


@pytest.mark.parametrize(
    ("place", "said"),
    [("gone/0", "topic 'gone' does not exist"), ("t/9", "t/9 does not exist: the topic has 1 partitions")],
)
def test_a_reset_to_the_offset_of_a_topic_or_partition_that_does_not_exist_is_refused_and_asks_no_broker(
    cluster, tmp_path, place, said
):
    cluster.topic("t", (0, 50))
    cluster.commit("g", "t", 5)
    file = tmp_path / "offsets"
    file.write_text(f"/consumers/g/offsets/t/0:7\n/consumers/g/offsets/{place}:3\n")
    before = cluster.tree()
    done = cluster.run("offsets", "reset", "g", "--from-file", str(file), "--execute", "--no-backup")
    assert done.code == 1
    assert said in done.err
    assert (cluster.tree(), cluster.created) == (before, [])
    # the command removes an offset that is null in the file, wherever its znode is
    topic, _, number = place.partition("/")
    file.write_text(json.dumps({"version": 1, "offsets": {"g": {"t": {"0": 7}} | {topic: {number: None}}}}))
    done = cluster.run("offsets", "reset", "g", "--from-file", str(file), "--execute", "--no-backup")
    assert (done.code, cluster.created) == (0, []), done
