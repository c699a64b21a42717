"""Kafka's group requests as the coordinator's records, and its answers as Kafka's responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from legacy_consumer.errors import MalformedResponseError
from legacy_consumer.fetching.columnar.protocol.framing import Api
from legacy_consumer.fetching.columnar.protocol.group_messages import (
    GROUP_EXCHANGES,
    Row,
    Value,
    read_message,
    write_message,
)
from rebalance.coordination import Code
from rebalance.coordination.effects import (
    Answer,
    CommitAnswer,
    FoundCoordinator,
    HeartbeatAnswer,
    JoinAnswer,
    LeaveAnswer,
    OffsetsAnswer,
    SyncAnswer,
)
from rebalance.coordination.requests import (
    CommitOffsets,
    CommittedOffset,
    FetchOffsets,
    FindCoordinator,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Leaving,
    Protocol,
    Request,
    SyncGroup,
)
from zk_layout.model import TopicPartition

ID_FIRST_SINCE = 4
"""The version of JoinGroup from which on a member without an id is only given one."""
_LONGEST_NAME_BYTES = 32_000
"""Member ids begin with it, and have to fit into a text of the protocol, too."""
_FIRST_WITH_LIST_OF_LEAVING = 3
_NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class Node:
    """Where the coordinator is reached, as clients are told."""

    node_id: int
    host: str
    port: int


NO_NODE = Node(-1, "", -1)


def read_request(api: Api, version: int, body: memoryview | bytes, reply_to: int, client_id: str) -> Request:
    """Raises: MalformedResponseError."""
    row = read_message(GROUP_EXCHANGES[api].request, version, body, f"{api.name} request")
    if api is Api.FIND_COORDINATOR:
        return FindCoordinator(reply_to, _text(row, "key"))
    group = _text(row, "group")
    if api is Api.OFFSET_FETCH:
        if row["topics"] is None:
            return FetchOffsets(reply_to, group, None)
        return FetchOffsets(reply_to, group, tuple(tp for tp, _ in _partitions(row)))
    instance_id = cast("str | None", row.get("instance_id"))
    if api is Api.LEAVE_GROUP:
        rows = _rows(row, "members") if version >= _FIRST_WITH_LIST_OF_LEAVING else [row]
        leaving = (Leaving(_text(one, "member_id"), cast("str | None", one.get("instance_id"))) for one in rows)
        return LeaveGroup(reply_to, group, tuple(leaving))
    member_id = _text(row, "member_id")
    if api is Api.JOIN_GROUP:
        if (size := len((instance_id or client_id).encode())) > _LONGEST_NAME_BYTES:
            raise MalformedResponseError(f"{api.name} request", f"no member id can be made of a name of {size} bytes")
        session_ms = _int(row, "session_timeout_ms")
        rebalance_ms = session_ms if row["rebalance_timeout_ms"] is None else _int(row, "rebalance_timeout_ms")
        return JoinGroup(
            reply_to,
            group,
            member_id,
            _text(row, "protocol_type"),
            tuple(Protocol(_text(one, "name"), _bytes(one, "metadata")) for one in _rows(row, "protocols")),
            session_ms,
            rebalance_ms,
            instance_id,
            client_id,
            version >= ID_FIRST_SINCE,
        )
    generation = _int(row, "generation")
    if api is Api.SYNC_GROUP:
        assignments = {_text(one, "member_id"): _bytes(one, "assignment") for one in _rows(row, "assignments")}
        return SyncGroup(reply_to, group, member_id, generation, assignments, instance_id)
    if api is Api.OFFSET_COMMIT:
        offsets = {
            tp: CommittedOffset(
                _int(one, "offset"), cast("str | None", one["metadata"]) or "", _int(one, "leader_epoch")
            )
            for tp, one in _partitions(row)
        }
        return CommitOffsets(reply_to, group, member_id, generation, offsets, instance_id)
    assert api is Api.HEARTBEAT
    return Heartbeat(reply_to, group, member_id, generation, instance_id)


def write_answer(api: Api, version: int, answer: Answer, node: Node) -> bytes:
    """The body of the response. node: where this coordinator is reached."""
    return write_message(GROUP_EXCHANGES[api].response, version, _row_of(version, answer, node))


def _row_of(version: int, answer: Answer, node: Node) -> Row:
    match answer:
        case FoundCoordinator(code):
            told = node if code is Code.NONE else NO_NODE
            return {"error": code, "node_id": told.node_id, "host": told.host, "port": told.port}
        case JoinAnswer():
            members: list[Row] = [
                {"member_id": one.member_id, "instance_id": one.instance_id, "metadata": one.metadata}
                for one in answer.members
            ]
            return {
                "error": answer.code,
                "generation": answer.generation,
                "protocol": answer.protocol,
                "leader": answer.leader,
                "member_id": answer.member_id,
                "members": members,
            }
        case SyncAnswer(code, assignment):
            return {"error": code, "assignment": assignment}
        case HeartbeatAnswer(code):
            return {"error": code}
        case LeaveAnswer(code, left):
            if version < _FIRST_WITH_LIST_OF_LEAVING:
                return {"error": left[0][1] if left else code}
            rows: list[Row] = [
                {"member_id": one.member_id, "instance_id": one.instance_id, "error": its} for one, its in left
            ]
            return {"error": code, "members": rows}
        case CommitAnswer(codes):
            return {"topics": _topics((tp, {"error": code}) for tp, code in codes.items())}
        case OffsetsAnswer(code, offsets):
            return {"error": code, "topics": _topics((tp, _offset_row(one)) for tp, one in offsets.items())}


def _offset_row(committed: CommittedOffset | None) -> Row:
    if committed is None:
        return {"offset": _NO_OFFSET, "metadata": "", "error": Code.NONE}
    return {
        "offset": committed.offset,
        "leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "error": Code.NONE,
    }


def _topics(rows: Iterable[tuple[TopicPartition, Row]]) -> list[Row]:
    by_topic: dict[str, list[Row]] = {}
    for tp, row in rows:
        by_topic.setdefault(tp.topic, []).append({"partition": tp.partition, **row})
    return [{"topic": topic, "partitions": partitions} for topic, partitions in by_topic.items()]


def _partitions(row: Row) -> list[tuple[TopicPartition, Row]]:
    return [
        (TopicPartition(_text(topic, "topic"), _int(one, "partition")), one)
        for topic in _rows(row, "topics")
        for one in _rows(topic, "partitions")
    ]


def _text(row: Row, name: str) -> str:
    return cast("str", row[name])


def _int(row: Row, name: str) -> int:
    return cast("int", row[name])


def _bytes(row: Row, name: str) -> bytes:
    return cast("bytes", row[name])


def _rows(row: Row, name: str) -> list[Mapping[str, Value]]:
    return cast("list[Mapping[str, Value]]", row[name])
