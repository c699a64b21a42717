"""The znodes of a reset that running members follow. No I/O.

    /consumers/G/requests/reset              ephemeral of the operator's command: the partitions and the reset's state
    /consumers/G/requests/answers/<id>       ephemeral of each member concerned: its partitions and its state

JVM members and Kafka's tools read only ids, owners and offsets of a group, so they ignore these znodes. They cannot
follow a reset and must be stopped.

    operator                                      member
    request, state prepare                 ──►    hands out nothing more of the partitions it owns
                                           ◄──    answer ready, with these partitions
    one multi: all offsets at the versions
    seen now, and the request's state applied ──► reads the offsets again and goes on from there
                                           ◄──    answer done
    deletes the request                    ──►    deletes its answer

When the command ends for any reason, its session ends and so does the request. Members then continue: from the written
offset if there is one, else from their position. A request that is not ephemeral does not count, and an answer counts
only from the session that owns the owner znode, since other clients may also write in a group's folder. A member that
claims such a partition meanwhile answers for it too, also if it could not begin, so the operator waits until the
present owner of each partition has answered.

    {"version":1,"id":"5f0c...","state":"prepare","partitions":{"orders":[0,1]}}
    {"version":1,"request":"5f0c...","state":"ready","partitions":{"orders":[0,1]}}
    {"version":1,"request":"5f0c...","state":"refused","partitions":{},"reason":"..."}
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from zk_layout.codecs.strict_json import JsonObject, decode_object, encode_json
from zk_layout.model import TopicPartition

_VERSION = 1
HOLD_MS = 120_000
"""The longest time for which a member holds its partitions for one request; the command waits 10 s by default."""


class RequestState(Enum):
    """The operator's progress."""

    PREPARE = "prepare"
    APPLIED = "applied"


class AnswerState(Enum):
    """A member's progress."""

    READY = "ready"
    DONE = "done"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Request:
    """An operator's request; request_id distinguishes it from the next one."""

    request_id: str
    state: RequestState
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Answer:
    """A member's answer. reason: why it refuses."""

    request_id: str
    state: AnswerState
    partitions: frozenset[TopicPartition]
    reason: str = ""


def request_path(group: str) -> str:
    """Return the path of the request; a second operator's command finds the znode there, and cannot create it."""
    return f"/consumers/{group}/requests/reset"


def answers_path(group: str) -> str:
    """Return the parent of the answers. The operator's command creates it, or a member with zookeeper.set.acl."""
    return f"/consumers/{group}/requests/answers"


def answer_path(group: str, consumer_id: str) -> str:
    """Return the path of a member's answer."""
    return f"{answers_path(group)}/{consumer_id}"


def encode_request(request: Request) -> bytes:
    """Return the data of the request's znode; see the module."""
    return _encode(
        {"version": _VERSION, "id": request.request_id, "state": request.state.value}, request.partitions, ""
    )


def decode_request(path: str, data: bytes | None) -> Request:
    """Return the request in a znode. Raises: MalformedZnodeError."""
    document = _decode(path, data)
    state = _STATES.get(document.text("state"))
    if state is None:
        raise document.malformed("state", "a state of a reset")
    return Request(document.text("id"), state, _partitions(document))


def encode_answer(answer: Answer) -> bytes:
    """Return the data of the answer's znode; see the module."""
    return _encode(
        {"version": _VERSION, "request": answer.request_id, "state": answer.state.value},
        answer.partitions,
        answer.reason,
    )


def decode_answer(path: str, data: bytes | None) -> Answer:
    """Return the answer in a znode. Raises: MalformedZnodeError."""
    document = _decode(path, data)
    state = _ANSWERS.get(document.text("state"))
    if state is None:
        raise document.malformed("state", "a state of an answer")
    reason = document.text("reason") if "reason" in document else ""
    return Answer(document.text("request"), state, _partitions(document), reason)


_STATES = {state.value: state for state in RequestState}
_ANSWERS = {state.value: state for state in AnswerState}


def _encode(head: dict[str, object], partitions: Iterable[TopicPartition], reason: str) -> bytes:
    topics: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        topics.setdefault(tp.topic, []).append(tp.partition)
    return encode_json({**head, "partitions": topics, **({"reason": reason} if reason else {})})


def _decode(path: str, data: bytes | None) -> JsonObject:
    document = decode_object(path, data)
    if document.integer("version") != _VERSION:
        raise document.malformed("version", str(_VERSION))
    return document


def _partitions(document: JsonObject) -> frozenset[TopicPartition]:
    topics = document.child("partitions")
    return frozenset(TopicPartition(topic, number) for topic in topics for number in topics.integers(topic))
