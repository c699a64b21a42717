"""Conversations of members with a group coordinator, request by request: for brokers and for our coordinator.

A conversation is a function of a player. The player sends, receives and logs; tests compare the logs. It sends every
request in the versions of a family: OLD has Kafka 1.1's versions, NEW the newest that we implement (Kafka 2.3 and
newer).
"""

from __future__ import annotations

import base64
import json
import lzma
from pathlib import Path

from legacy_consumer.fetching.columnar.protocol.framing import Api
from rebalance.coordination import Code

OLD = {
    Api.FIND_COORDINATOR: 1, Api.JOIN_GROUP: 2, Api.SYNC_GROUP: 1, Api.HEARTBEAT: 1, Api.LEAVE_GROUP: 1,
    Api.OFFSET_COMMIT: 3, Api.OFFSET_FETCH: 3,
}  # fmt: skip
NEW = {
    Api.FIND_COORDINATOR: 2, Api.JOIN_GROUP: 5, Api.SYNC_GROUP: 3, Api.HEARTBEAT: 3, Api.LEAVE_GROUP: 3,
    Api.OFFSET_COMMIT: 7, Api.OFFSET_FETCH: 5,
}  # fmt: skip
MIN_SESSION_MS = 3_000
"""group.min.session.timeout.ms of the recorded brokers; short, so that a recording takes seconds."""

RECORDINGS = Path(__file__).parent.parent / "data" / "group_conversations"
_NOT_COMPARED = {"throttle_ms", "host", "port", "node_id", "message"}


class Player:
    """Plays a conversation: keeps each member's id and generation, and the log.

    Subclasses have _send, _receive, _is_waiting, pass_ms.
    """

    def __init__(self, family, group):
        self.family = family
        self.group = group
        self.ids = {}
        self.generations = {}
        self.asked = {}
        self.log = []
        self._named = {}

    def join(
        self, who, *, protocols=("range",), protocol_type="consumer", session_ms=30_000, rebalance_ms=30_000,
        subscription=None, **row,
    ):  # fmt: skip
        """Send a JoinGroup, and do not wait. subscription: the member's first letter if none is given."""
        offered = [{"name": name, "metadata": subscription or who[0].encode()} for name in protocols]
        fields = {
            "session_timeout_ms": session_ms, "rebalance_timeout_ms": rebalance_ms, "protocol_type": protocol_type,
            "protocols": offered, "member_id": self.ids.get(who, ""), **row,
        }  # fmt: skip
        self.send(who, Api.JOIN_GROUP, fields)

    def sync(self, who, assigned=(), **row):
        """Send a SyncGroup, and do not wait. assigned: names of members that get their own name as assignment."""
        rows = [{"member_id": self.ids[one], "assignment": one.encode()} for one in assigned]
        self.send(who, Api.SYNC_GROUP, {**self._me(who), "assignments": rows, **row})

    def heartbeat(self, who, **row):
        self.send(who, Api.HEARTBEAT, {**self._me(who), **row})
        return self.answer(who)["error"]

    def leave(self, who, **row):
        self.send(who, Api.LEAVE_GROUP, {"member_id": self.ids.get(who, ""), "members": [self._me(who)], **row})
        return self.answer(who)

    def commit(self, who, offset=7, **row):
        partitions = [{"partition": 0, "offset": offset, "metadata": "note"}]
        self.send(
            who, Api.OFFSET_COMMIT, {**self._me(who), "topics": [{"topic": "t", "partitions": partitions}], **row}
        )
        self.answer(who)

    def fetch(self, who, everything=False, **row):
        topics = None if everything else [{"topic": "t", "partitions": [{"partition": 0}, {"partition": 1}]}]
        self.send(who, Api.OFFSET_FETCH, {"topics": topics, **row})
        self.answer(who)

    def find(self, who):
        self.send(who, Api.FIND_COORDINATOR, {"key": self.group, "key_type": 0})
        self.answer(who)

    def beat_until(self, who, code):
        """Send heartbeats until one gets this code; log only that answer."""
        while self.heartbeat(who) != code:
            self.log.pop()
            self.pass_ms(100)

    def send(self, who, api, row):
        self.asked[who] = api
        self._send(who, api, {"group": self.group, **row})

    def answer(self, who):
        """Wait for the answer of the last request of this member, and log it."""
        api = self.asked[who]
        row = self._receive(who, api)
        if api is Api.JOIN_GROUP and row["error"] in (Code.NONE, Code.MEMBER_ID_REQUIRED) and row["member_id"]:
            self.ids[who] = row["member_id"]
            if row["member_id"] not in self._named:
                before = sum(name.rstrip("'") == who for name in self._named.values())
                self._named[row["member_id"]] = who + "'" * before
        if api is Api.JOIN_GROUP and row["error"] == Code.NONE:
            self.generations[who] = row["generation"]
        self.log.append([who, api.name, row])
        return row

    def waits(self, who):
        """Log whether the last request of this member is still unanswered."""
        self.log.append([who, self.asked[who].name, "waits" if self._is_waiting(who) else "is answered"])

    def told(self):
        """Return the log with members' names in place of their ids, as JSON values."""
        return [[who, api, _plain(row, self._named)] for who, api, row in self.log]

    def _me(self, who):
        return {"member_id": self.ids.get(who, ""), "generation": self.generations.get(who, -1)}


def _plain(value, named):
    match value:
        case dict():
            return {key: _plain(inner, named) for key, inner in value.items() if key not in _NOT_COMPARED}
        case list() | tuple():
            rows = [_plain(inner, named) for inner in value]
            return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
        case bytes():
            return base64.b64encode(value).decode()
        case str():
            return named.get(value, value)
        case Code():
            return int(value)
        case _:
            return value


def read_recording(version):
    """Return {conversation: log} of a Kafka version."""
    return json.loads(lzma.decompress((RECORDINGS / f"{version}.json.xz").read_bytes()))


def write_recording(version, told):
    RECORDINGS.mkdir(exist_ok=True)
    (RECORDINGS / f"{version}.json.xz").write_bytes(lzma.compress(json.dumps(told, sort_keys=True).encode()))


# The conversations.


def settle(p, *names, **how):
    """Bring these members into one Stable generation, which the first leads, and clear the log."""
    for place, who in enumerate(names):
        p.join(who, **how)
        if p.family is NEW and "instance_id" not in how:
            p.answer(who)
            p.join(who, **how)
        for former in names[:place]:
            p.join(former, **how)
        for one in names[: place + 1]:
            p.answer(one)
        p.sync(names[0], names[: place + 1])
        p.answer(names[0])
        for one in names[1 : place + 1]:
            p.sync(one)
            p.answer(one)
    p.log.clear()


def lone_member(p):
    p.find("a")
    p.join("a")
    p.answer("a")
    p.heartbeat("a")
    p.sync("a", ["a"])
    p.answer("a")
    p.heartbeat("a")
    p.commit("a")
    p.fetch("a")
    p.fetch("a", everything=True)
    p.leave("a")
    p.heartbeat("a")
    p.leave("a")
    p.commit("a")


def three_at_once(p):
    p.join("a")
    p.answer("a")
    p.join("b")
    p.waits("b")
    p.join("c")
    p.waits("c")
    p.sync("a", ["a"])
    p.answer("a")
    p.join("a")
    for who in "abc":
        p.answer(who)
    p.sync("b")
    p.waits("b")
    p.sync("a", "abc")
    p.answer("a")
    p.answer("b")
    p.sync("c")
    p.answer("c")


def one_by_one(p):
    p.join("a")
    p.answer("a")
    p.sync("a", ["a"])
    p.answer("a")
    p.join("b")
    p.waits("b")
    p.heartbeat("a")
    p.join("a")
    p.answer("a")
    p.answer("b")
    p.sync("a", "ab")
    p.answer("a")
    p.sync("b")
    p.answer("b")
    p.join("c")
    p.heartbeat("a")
    p.heartbeat("b")
    p.join("b")
    p.join("a")
    for who in "abc":
        p.answer(who)


def follower_joins_again_while_stable(p):
    settle(p, "a", "b")
    p.join("b")
    p.answer("b")
    p.heartbeat("a")
    p.sync("b")
    p.answer("b")


def leader_joins_again_while_completing(p):
    settle(p, "a", "b")
    p.join("a")
    p.waits("a")
    p.join("b")
    p.answer("a")
    p.answer("b")
    p.sync("b")
    p.waits("b")
    p.join("a")
    p.answer("a")
    p.sync("a", "ab")
    p.answer("a")
    p.answer("b")


def follower_with_another_subscription(p):
    settle(p, "a", "b")
    p.join("b", protocols=("range", "other"))
    p.waits("b")
    p.heartbeat("a")
    p.join("a")
    p.answer("a")
    p.answer("b")
    p.heartbeat("b")
    p.join("b", protocols=("range",))
    p.waits("b")


def sync_at_other_times(p):
    settle(p, "a", "b")
    p.join("a")
    p.sync("b")
    p.answer("b")
    p.join("b")
    p.answer("a")
    p.answer("b")
    p.sync("b", generation=1)
    p.answer("b")
    p.sync("b", member_id="nobody")
    p.answer("b")
    p.sync("a", "ab")
    p.answer("a")
    p.sync("b")
    p.answer("b")
    p.sync("b", generation=99)
    p.answer("b")


def heartbeat_in_each_state(p):
    settle(p, "a", "b")
    p.heartbeat("a")
    p.heartbeat("a", generation=1)
    p.heartbeat("a", member_id="nobody")
    p.join("a")
    p.heartbeat("b")
    p.heartbeat("b", generation=1)
    p.join("b")
    p.answer("a")
    p.answer("b")
    p.heartbeat("b")
    p.heartbeat("b", generation=1)


def commit_in_each_state(p):
    settle(p, "a", "b")
    p.commit("b", 1)
    p.commit("b", 2, generation=1)
    p.commit("b", 3, member_id="nobody")
    p.commit("b", 4, generation=-1, member_id="")
    p.join("a")
    p.commit("b", 5)
    p.join("b")
    p.answer("a")
    p.answer("b")
    p.commit("b", 6)
    p.fetch("b")
    p.leave("a")
    p.leave("b")
    p.commit("b", 7)
    p.commit("b", 8, generation=-1, member_id="")
    p.fetch("b")


def leave_while_stable(p):
    settle(p, "a", "b")
    p.leave("b")
    p.heartbeat("a")
    p.join("a")
    p.answer("a")
    p.heartbeat("b")


def leave_while_preparing(p):
    settle(p, "a", "b")
    p.join("a")
    p.waits("a")
    p.leave("b")
    p.answer("a")


def leave_while_completing(p):
    settle(p, "a", "b", "c")
    p.join("a")
    p.join("b")
    p.join("c")
    for who in "abc":
        p.answer(who)
    p.sync("b")
    p.waits("b")
    p.leave("c")
    p.answer("b")
    p.join("b")
    p.waits("b")
    p.sync("a", "ab")
    p.answer("a")
    p.join("a")
    p.answer("a")
    p.answer("b")


def leader_leaves_while_completing(p):
    settle(p, "a", "b")
    p.join("a")
    p.join("b")
    p.answer("a")
    p.answer("b")
    p.sync("b")
    p.leave("a")
    p.answer("b")
    p.join("b")
    p.answer("b")


def all_leave(p):
    settle(p, "a", "b")
    p.leave("a")
    p.leave("b")
    p.join("b")
    p.answer("b")
    p.ids.pop("b")
    p.join("b", protocols=("other",), protocol_type="connect")
    p.answer("b")


def session_ends_while_stable(p):
    settle(p, "a", "b", session_ms=MIN_SESSION_MS)
    p.beat_until("a", Code.REBALANCE_IN_PROGRESS)
    p.join("a", session_ms=MIN_SESSION_MS)
    p.answer("a")
    p.heartbeat("b")


def session_ends_while_preparing(p):
    settle(p, "a", "b", session_ms=MIN_SESSION_MS)
    p.join("a", session_ms=MIN_SESSION_MS)
    p.waits("a")
    p.pass_ms(2 * MIN_SESSION_MS)
    p.answer("a")
    p.heartbeat("b")


def leaders_session_ends_while_completing(p):
    settle(p, "a", "b", session_ms=MIN_SESSION_MS)
    p.join("a", session_ms=MIN_SESSION_MS)
    p.join("b", session_ms=MIN_SESSION_MS)
    p.answer("a")
    p.answer("b")
    p.sync("b")
    p.waits("b")
    p.pass_ms(2 * MIN_SESSION_MS)
    p.answer("b")
    p.join("b", session_ms=MIN_SESSION_MS)
    p.answer("b")


def rebalance_timeout_shorter_than_the_session(p):
    settle(p, "a", "b", rebalance_ms=1_000)
    p.join("a", rebalance_ms=1_000)
    p.waits("a")
    p.pass_ms(2_000)
    p.answer("a")
    p.heartbeat("b")
    p.join("b", rebalance_ms=1_000)
    p.answer("b")


def rebalance_timeout_longer_than_the_session(p):
    settle(p, "a", "b", session_ms=MIN_SESSION_MS, rebalance_ms=60_000)
    p.join("a", session_ms=MIN_SESSION_MS, rebalance_ms=60_000)
    for _ in range(5):
        p.pass_ms(MIN_SESSION_MS // 3)
        p.heartbeat("b")
    p.waits("a")
    p.join("b", session_ms=MIN_SESSION_MS, rebalance_ms=60_000)
    p.answer("a")
    p.answer("b")


def protocols_that_do_not_fit(p):
    p.join("a", protocols=())
    p.answer("a")
    p.join("a", protocol_type="")
    p.answer("a")
    settle(p, "a", protocols=("range", "sticky"))
    p.join("b", protocols=("other",))
    p.answer("b")
    p.join("b", protocol_type="connect")
    p.answer("b")
    p.heartbeat("a")
    p.join("a", protocols=("range", "other"))
    p.answer("a")


def protocol_that_most_like_best(p):
    settle(p, "a", protocols=("sticky", "range", "roundrobin"))
    p.join("b", protocols=("range", "roundrobin"))
    p.join("c", protocols=("range", "roundrobin"))
    p.waits("c")
    p.join("a", protocols=("sticky", "roundrobin", "range"))
    for who in "abc":
        p.answer(who)


def groups_and_members_that_nobody_knows(p):
    p.ids["a"] = "nobody"
    p.generations["a"] = 5
    p.join("a")
    p.answer("a")
    p.sync("a", ["a"])
    p.answer("a")
    p.heartbeat("a")
    p.leave("a")
    p.commit("a")
    p.fetch("a")
    p.fetch("a", everything=True)
    p.commit("a", generation=-1, member_id="")
    p.fetch("a")


def values_that_cannot_be(p):
    p.join("a", session_ms=MIN_SESSION_MS - 1)
    p.answer("a")
    p.join("a", session_ms=2_000_000_000)
    p.answer("a")
    p.join("a", group="")
    p.answer("a")
    p.send("a", Api.HEARTBEAT, {"group": "", "member_id": "a", "generation": 1})
    p.answer("a")


def ids_are_given_first(p):
    p.join("a")
    p.answer("a")
    p.join("a")
    p.answer("a")
    p.sync("a", ["a"])
    p.answer("a")
    p.join("b", session_ms=MIN_SESSION_MS)
    p.answer("b")
    p.heartbeat("a")
    p.heartbeat("b", generation=1)
    p.join("a")
    p.waits("a")
    p.pass_ms(2 * MIN_SESSION_MS)
    p.answer("a")
    p.join("b")
    p.answer("b")


def an_id_that_was_given_leaves(p):
    settle(p, "a")
    p.join("b")
    p.answer("b")
    p.join("a")
    p.waits("a")
    p.leave("b")
    p.answer("a")


def static_member_starts_again(p):
    p.join("a", instance_id="i")
    p.answer("a")
    p.sync("a", ["a"], instance_id="i")
    p.answer("a")
    former = p.ids.pop("a")
    p.join("a", instance_id="i")
    p.answer("a")
    p.sync("a", instance_id="i")
    p.answer("a")
    p.heartbeat("a", instance_id="i")
    p.heartbeat("a", instance_id="i", member_id=former)
    p.heartbeat("a", member_id=former)
    p.heartbeat("a", instance_id="other")
    p.commit("a", instance_id="i", member_id=former)
    p.sync("a", instance_id="i", member_id=former)
    p.answer("a")
    p.join("a", instance_id="i", member_id=former)
    p.answer("a")


def static_follower_starts_again(p):
    settle(p, "a")
    p.join("b", instance_id="i")
    p.join("a")
    p.answer("a")
    p.answer("b")
    p.sync("a", "ab")
    p.answer("a")
    p.sync("b", instance_id="i")
    p.answer("b")
    p.ids.pop("b")
    p.join("b", instance_id="i")
    p.answer("b")
    p.heartbeat("a")
    p.sync("b", instance_id="i")
    p.answer("b")
    p.ids.pop("b")
    p.join("b", instance_id="i", protocols=("range", "other"))
    p.waits("b")
    p.answer("b")
    p.heartbeat("a")
    p.sync("b", instance_id="i")
    p.answer("b")


def static_member_starts_again_with_another_subscription(p):
    settle(p, "a", instance_id="i")
    p.ids.pop("a")
    p.join("a", instance_id="i", subscription=b"other topics")
    p.answer("a")
    p.sync("a", instance_id="i")
    p.answer("a")
    p.ids.pop("a")
    p.join("a", instance_id="i", protocols=("other",))
    p.answer("a")


def static_member_starts_again_while_completing(p):
    settle(p, "a")
    p.join("b", instance_id="i")
    p.join("a")
    p.answer("a")
    p.answer("b")
    p.sync("b", instance_id="i")
    former = p.ids.pop("b")
    p.join("B", instance_id="i")
    p.answer("b")
    p.waits("B")
    p.ids["b"] = former
    p.heartbeat("b", instance_id="i")
    p.join("a")
    p.answer("a")
    p.answer("B")


def members_leave_together(p):
    settle(p, "a", "b")
    p.send(
        "c",
        Api.LEAVE_GROUP,
        {"members": [
            {"member_id": p.ids["b"]}, {"member_id": "nobody"}, {"member_id": "", "instance_id": "none"},
            {"member_id": ""},
        ]},
    )  # fmt: skip
    p.answer("c")
    p.join("a")
    p.answer("a")


def static_member_is_removed_by_its_instance(p):
    p.join("a", instance_id="i")
    p.answer("a")
    p.sync("a", ["a"], instance_id="i")
    p.answer("a")
    p.send("c", Api.LEAVE_GROUP, {"members": [{"member_id": "nobody", "instance_id": "i"}]})
    p.answer("c")
    p.send("c", Api.LEAVE_GROUP, {"members": [{"member_id": "", "instance_id": "i"}]})
    p.answer("c")
    p.heartbeat("a", instance_id="i")


IN_BOTH = (
    lone_member, leader_joins_again_while_completing, follower_joins_again_while_stable,
    follower_with_another_subscription, sync_at_other_times, heartbeat_in_each_state, commit_in_each_state,
    leave_while_stable, leave_while_preparing, leave_while_completing, leader_leaves_while_completing,
    session_ends_while_stable, session_ends_while_preparing, leaders_session_ends_while_completing,
    rebalance_timeout_shorter_than_the_session, rebalance_timeout_longer_than_the_session,
    groups_and_members_that_nobody_knows, values_that_cannot_be,
)  # fmt: skip
ONLY_OLD = (three_at_once, one_by_one, all_leave, protocols_that_do_not_fit, protocol_that_most_like_best)
ONLY_NEW = (
    ids_are_given_first, an_id_that_was_given_leaves, static_member_starts_again, static_follower_starts_again,
    static_member_starts_again_while_completing, static_member_starts_again_with_another_subscription,
    members_leave_together, static_member_is_removed_by_its_instance,
)  # fmt: skip
CONVERSATIONS = {
    **{f"{one.__name__}, old": (one, OLD) for one in (*ONLY_OLD, *IN_BOTH)},
    **{f"{one.__name__}, new": (one, NEW) for one in (*IN_BOTH[1:], *ONLY_NEW)},
}
