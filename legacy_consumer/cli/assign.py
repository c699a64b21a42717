"""`legacy-consumer assign`: what a group of these members would do, without any server."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TypeAlias, TypeGuard

import click

from rebalance.assignors import ASSIGNORS, DIALECTS, Assignor, Dialect
from rebalance.assignors.java_hash import java_sort_key
from rebalance.errors import AssignmentRefusedError
from rebalance.snapshot import GroupSnapshot
from rebalance.subscription import unreadable_reason
from zk_layout.codecs import decode_registration
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import ConsumerRegistration

_Json: TypeAlias = Mapping[str, object]

# a topic may have any number of partitions; this bounds what a mistyped number can do to the memory
_MAX_PARTITIONS = 1_000_000

_EXAMPLE = (
    """echo '{"topics": {"t": 3}, "members": {"g_c1": {"version": 1, "subscription": {"t": 1}, """
    """"pattern": "static"}}}' | legacy-consumer assign --strategy roundrobin --dialect 0.10.2"""
)


@click.command(
    help=f"""Say who would own which partition, without touching any server.

    Reads one case per line from standard input:

    \b
      {{"topics": {{TOPIC: NUMBER OF PARTITIONS}},
       "members": {{CONSUMER ID: REGISTRATION}}}}

    A registration is what a member writes under /consumers/GROUP/ids: "subscription" says how many streams it has
    for each topic, "pattern" is static, white_list or black_list.

    Prints one line for each case: {{"topic/partition": "consumer id-stream"}}, or {{"error": reason}} where members
    of that dialect refuse the group. A member whose registration nobody can read is left out and named on standard
    error; real JVM members would fail on it.

    A line that is not a case ends the command with exit code 1.

    \b
    Example:
      {_EXAMPLE}
    """
)
@click.option(
    "--strategy",
    type=click.Choice(list(ASSIGNORS)),
    default="range",
    show_default=True,
    help="The group's partition.assignment.strategy.",
)
@click.option(
    "--dialect",
    type=click.Choice(DIALECTS),
    default="1.0",
    show_default=True,
    help="Kafka version of the members, for roundrobin: 0.8.2 up to 0.10.1, 0.10.2 up to 0.11, 1.0 up to 1.1.1.",
)
@click.option("--json", "_json", is_flag=True, help="Accepted for uniformity: the output is JSON anyway.")
def assign(strategy: str, dialect: str, _json: bool) -> None:
    """See the help text above."""
    if not _is_dialect(dialect):
        raise click.UsageError(f"{dialect} is no dialect")
    assignor = ASSIGNORS[strategy]
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            group = _parse_case(line)
        except ValueError as error:
            raise click.ClickException(f"line {number}: {error}") from error
        for consumer_id, reason in group.unreadable.items():
            click.echo(f"Warning: line {number}: member {consumer_id} is left out: {reason}", err=True)
        # echo flushes, so that a program can hand in a case and wait for its answer
        click.echo(_answer(group, assignor, dialect))


def _is_dialect(word: str) -> TypeGuard[Dialect]:
    return word in DIALECTS


def _answer(group: GroupSnapshot, assignor: Assignor, dialect: Dialect) -> str:
    try:
        assignment = assignor(group, dialect)
    except AssignmentRefusedError as error:
        return json.dumps({"error": str(error)})
    return json.dumps({str(partition): str(thread) for partition, thread in assignment.items()})


def _parse_case(line: bytes) -> GroupSnapshot:
    """A line of the input as a group. Raises: ValueError that says what is wrong."""
    try:
        case = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    document = _object(case, "a case")
    topics = _object(document.get("topics"), '"topics"')
    members = _object(document.get("members"), '"members"')
    partitions = {topic: tuple(range(_partition_count(topic, count))) for topic, count in topics.items()}
    readable: dict[str, ConsumerRegistration] = {}
    unreadable: dict[str, str] = {}
    for consumer_id in sorted(members, key=java_sort_key):
        try:
            registration = decode_registration(
                f"/consumers/-/ids/{consumer_id}", json.dumps(members[consumer_id]).encode()
            )
        except MalformedZnodeError as error:
            unreadable[consumer_id] = error.reason
            continue
        reason = unreadable_reason(registration)
        if reason is None:
            readable[consumer_id] = registration
        else:
            unreadable[consumer_id] = reason
    return GroupSnapshot("-", readable, partitions, unreadable)


def _object(value: object, name: str) -> _Json:
    if not isinstance(value, dict):
        shown = "missing" if value is None else json.dumps(value)[:40]
        raise ValueError(f"{name} must be a JSON object, it is {shown}")  # noqa: TRY004  the text is wrong
    return value


def _partition_count(topic: str, count: object) -> int:
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _MAX_PARTITIONS:
        shown = json.dumps(count)[:40]
        raise ValueError(f"topic {topic} must have a number of partitions from 0 to {_MAX_PARTITIONS}, not {shown}")
    return count
