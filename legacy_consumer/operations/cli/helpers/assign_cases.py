"""Cases of `legacy-consumer assign` for groups with a coordinator: each line of JSON is the input of an assignor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rebalance.assignors.checked import divide_group, tell_share, user_data_of
from rebalance.assignors.failover import PRIORITY
from rebalance.assignors.members import NO_GENERATION
from rebalance.assignors.seam import Cluster, MemberAssignment, Subscription
from rebalance.assignors.strategies import common_protocol, make_assignor
from rebalance.errors import AssignorFailedError, UnknownAssignorError
from zk_layout.model import TopicPartition

Json: TypeAlias = Mapping[str, object]

# a topic may have any number of partitions; the limit bounds the memory that a mistyped number can take
MAX_PARTITIONS = 1_000_000
_MAX_TOPIC_CHARACTERS = 249
_MAX_ERROR_CHARACTERS = 400
_INT32 = 2**31
_MEMBER_KEYS = {"topics", "owned", "generation", "priority", "instance_id"}


@dataclass(frozen=True, slots=True)
class _Member:
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...]
    generation: int
    priority: int | None
    instance_id: str | None


def answer_coordinated(line: bytes, strategy: str) -> str:
    """Return {"topic/partition": member that may fetch it} as JSON; {"error": reason} if there is no assignment."""
    try:
        return json.dumps(_divide(line, strategy))
    except (ValueError, AssignorFailedError, UnknownAssignorError) as error:
        reason = str(error)
        # a name in the line may have any length
        return json.dumps({"error": reason if len(reason) <= _MAX_ERROR_CHARACTERS else _shortened(reason)})


def _shortened(reason: str) -> str:
    half = _MAX_ERROR_CHARACTERS // 2
    return f"{reason[:half]} ... {reason[-half:]}"


def _divide(line: bytes, strategy: str) -> dict[str, str]:
    """Return the assignment. Raises: ValueError that says what is wrong with the line, and the assignor's errors."""
    case = read_json(line)
    counts = {_topic(topic): count for topic, count in partition_counts(case).items()}
    members = {name: _member(name, told) for name, told in part(case, "members").items()}
    _check_instances(members)
    assignor = make_assignor(strategy, {})
    assignment = divide_group(
        assignor,
        common_protocol((assignor,)),
        Cluster.of_counts(counts),
        {name: _subscription(strategy, member) for name, member in members.items()},
    )
    holders = {partition: name for name, share in assignment.items() for partition in share.partitions}
    return {str(partition): holders[partition] for partition in sorted(holders)}


def _check_instances(members: Mapping[str, _Member]) -> None:
    """Raises: ValueError if two members are the same static member: a coordinator would fence one of them."""
    first: dict[str, str] = {}
    for name, member in members.items():
        other = first.setdefault(member.instance_id, name) if member.instance_id is not None else name
        if other != name:
            raise ValueError(f"members {other} and {name} have the same instance_id: {json.dumps(member.instance_id)}")


def _subscription(strategy: str, member: _Member) -> Subscription:
    """Return the subscription that the member's own assignor makes, after it has got the member's owned partitions."""
    assignor = make_assignor(strategy, {} if member.priority is None else {PRIORITY.name: str(member.priority)})
    if member.owned or member.generation != NO_GENERATION:
        tell_share(assignor, MemberAssignment(member.owned), member.generation)
    return Subscription(
        member.topics,
        user_data_of(assignor, member.topics),
        member.owned,
        None if member.generation == NO_GENERATION else member.generation,
        member.instance_id,
    )


def _member(name: str, told: object) -> _Member:
    where = f"member {name}"
    _text(name, "a member id")
    document = json_object(told, where)
    if unknown := sorted(document.keys() - _MEMBER_KEYS):
        raise ValueError(f"{where}: {json.dumps(unknown[0])} is none of {', '.join(sorted(_MEMBER_KEYS))}")
    # programs write null for a key that a member leaves out
    document = {key: value for key, value in document.items() if value is not None}
    topics = document.get("topics")
    if not isinstance(topics, list):
        raise ValueError(f'{where}: "topics" must be a list of topics')  # noqa: TRY004  the text is wrong
    owned = json_object(document.get("owned", {}), f'{where}: "owned"')
    instance_id = document.get("instance_id")
    return _Member(
        tuple(sorted({_topic(topic) for topic in topics})),
        tuple(sorted({partition for topic, some in owned.items() for partition in _owned(where, topic, some)})),
        _int32(document.get("generation", NO_GENERATION), f'{where}: "generation"', NO_GENERATION),
        None if "priority" not in document else _int32(document["priority"], f'{where}: "priority"', -_INT32),
        None if instance_id is None else _text(instance_id, f'{where}: "instance_id"'),
    )


def _owned(where: str, topic: str, numbers: object) -> list[TopicPartition]:
    if not isinstance(numbers, list):
        raise ValueError(f'{where}: "owned" must have a list of partitions for topic {topic}')  # noqa: TRY004
    return [TopicPartition(_topic(topic), _int32(number, f"{where}: a partition of {topic}", 0)) for number in numbers]


def _topic(name: object) -> str:
    text = _text(name, "a topic")
    if len(text) > _MAX_TOPIC_CHARACTERS:
        raise ValueError(f"topic {text[:40]}... is longer than {_MAX_TOPIC_CHARACTERS} characters")
    return text


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be a text, it is {json.dumps(value)[:40]}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} is half a character: {json.dumps(value)[:40]}") from error
    return value


def _int32(value: object, name: str, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < _INT32:
        raise ValueError(f"{name} must be an integer from {least} to {_INT32 - 1}, it is {json.dumps(value)[:40]}")
    return value


def read_json(line: bytes) -> Json:
    """Return the object in a line of input, with each key once. Raises: ValueError that says what is wrong."""
    try:
        # without its newline, which would start a second line in the error
        case = json.loads(line.rstrip(b"\r\n"), object_pairs_hook=_each_key_once)
    except _RepeatedKeyError:
        raise
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    return json_object(case, "a case")


class _RepeatedKeyError(ValueError):
    """An object has two values for one key, and it is unknown which one is meant."""


def _each_key_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise _RepeatedKeyError(f"{json.dumps(key)} is there more than once in one object")
        found[key] = value
    return found


def part(case: Json, key: str) -> Json:
    """Return an object of a case. Raises: ValueError if it is missing, or no object."""
    if key not in case:
        raise ValueError(f'"{key}" is missing: give a JSON object')
    return json_object(case[key], f'"{key}"')


def json_object(value: object, name: str) -> Json:
    """Return the value, which must be an object. Raises: ValueError that shows the value."""
    if not isinstance(value, dict):
        shown = json.dumps(value)[:40]
        raise ValueError(f"{name} must be a JSON object, it is {shown}")  # noqa: TRY004  the text is wrong
    return value


def partition_counts(case: Json) -> dict[str, int]:
    """Return {topic: number of partitions} of a case. Raises: ValueError if a number is wrong, or the sum too large."""
    counts: dict[str, int] = {}
    for topic, count in part(case, "topics").items():
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MAX_PARTITIONS:
            shown = json.dumps(count)[:40]
            raise ValueError(f"topic {topic} must have a number of partitions from 0 to {MAX_PARTITIONS}, not {shown}")
        counts[topic] = count
    if (together := sum(counts.values())) > MAX_PARTITIONS:
        raise ValueError(f"the topics have {together} partitions, and a case may have {MAX_PARTITIONS}")
    return counts
