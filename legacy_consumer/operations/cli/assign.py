"""`legacy-consumer assign`: the assignment of a group with these members, computed without any server."""

from __future__ import annotations

import json
from typing import TypeGuard

import click

from legacy_consumer.operations.cli.helpers.assign_cases import answer_coordinated, part, partition_counts, read_json
from legacy_consumer.operations.cli.helpers.outputs import require_input
from rebalance.assignors import ASSIGNORS, DIALECTS, ClassicAssignor, Dialect
from rebalance.assignors.java_hash import java_sort_key
from rebalance.assignors.strategies import DEFAULT_STRATEGY, STRATEGIES, make_assignor
from rebalance.dialects import LAST_VERSIONS
from rebalance.errors import AssignmentRefusedError, UnknownAssignorError
from rebalance.snapshot import GroupSnapshot
from rebalance.subscription import unreadable_reason
from zk_layout.codecs import decode_registration
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import ConsumerRegistration

_EXAMPLE = (
    """echo '{"topics": {"t": 3}, "members": {"g_c1": {"version": 1, "subscription": {"t": 1}, """
    """"pattern": "static"}}}' | legacy-consumer assign --strategy roundrobin --dialect 0.10.2"""
)


@click.command(
    help=f"""Print which member would own which partition, without contacting a server.

    Reads one case per line from standard input:

    \b
      {{"topics": {{TOPIC: NUMBER OF PARTITIONS}},
       "members": {{CONSUMER ID: REGISTRATION}}}}

    A registration is the JSON that a member writes under /consumers/GROUP/ids: "subscription" tells how many streams
    it has for each topic, "pattern" is static, white_list or black_list.

    Prints one line for each case: {{"topic/partition": "consumer id-stream"}}, or {{"error": reason}} if members of
    that dialect refuse the group. A member with an unreadable registration is left out and named on standard error;
    real JVM members would fail because of it.

    A line that is not a case ends the command with exit code 1.

    With --coordination kafka one member computes the assignment for all, as with Java's KafkaConsumer:

    \b
      {{"topics": {{TOPIC: NUMBER OF PARTITIONS}},
       "members": {{MEMBER ID: {{"topics": [TOPIC, ...], "owned": {{TOPIC: [PARTITION, ...]}},
                               "generation": NUMBER, "priority": NUMBER, "instance_id": ID}}}}}}

    All keys but "topics" are optional, and null counts as absent. Prints {{"topic/partition": "member id"}} for
    each case: the partitions that each member may fetch in the next generation. With a cooperative strategy a
    partition that moves has no owner for one generation, and the answer does not contain it. If a line is not a
    case, or the assignor fails, the command prints {{"error": reason}} and continues with the next line; the exit
    code is 0.

    \b
    Example:
      {_EXAMPLE}
    """
)
@click.option(
    "--coordination",
    type=click.Choice(["each", "kafka"]),
    default="each",
    show_default=True,
    help="each: every member computes the assignment itself, as in ZooKeeper groups. kafka: one member computes "
    "it for all.",
)
@click.option(
    "--strategy",
    metavar="NAME",
    default=DEFAULT_STRATEGY,
    show_default=True,
    help=f"The group's partition.assignment.strategy: {' or '.join(ASSIGNORS)}; with kafka {', '.join(STRATEGIES)}, "
    "a Java class name of these, or your own as package.module:Class.",
)
@click.option(
    "--dialect",
    type=click.Choice(DIALECTS),
    default=DIALECTS[-1],
    show_default=True,
    help="Kafka version of the members, for roundrobin: "
    f"{', '.join(f'{first} up to {last}' for first, last in LAST_VERSIONS.items())}.",
)
@click.option("--json", "_json", is_flag=True, help="Accepted for uniformity: the output is JSON anyway.")
def assign(coordination: str, strategy: str, dialect: str, _json: bool) -> None:
    """See the help text above."""
    if coordination == "kafka":
        _answer_coordinated(strategy)
        return
    if strategy not in ASSIGNORS:
        hint = "; give --coordination kafka for others" if strategy in STRATEGIES else ""
        raise click.BadParameter(f"{strategy!r} is not one of {', '.join(ASSIGNORS)}{hint}", param_hint="--strategy")
    if not _is_dialect(dialect):
        raise click.UsageError(f"{dialect} is no dialect")
    assignor = ASSIGNORS[strategy]
    for number, line in enumerate(require_input(), start=1):
        try:
            group = _parse_case(line)
        except ValueError as error:
            raise click.ClickException(f"line {number}: {error}") from error
        for consumer_id, reason in group.unreadable.items():
            click.echo(f"Warning: line {number}: member {consumer_id} is left out: {reason}", err=True)
        # echo flushes, so that a program can write a case and wait for its answer
        click.echo(_answer(group, assignor, dialect))


def _answer_coordinated(strategy: str) -> None:
    try:
        make_assignor(strategy, {})
    except UnknownAssignorError as error:
        raise click.BadParameter(str(error), param_hint="--strategy") from error
    for line in require_input():
        click.echo(answer_coordinated(line, strategy))


def _is_dialect(word: str) -> TypeGuard[Dialect]:
    return word in DIALECTS


def _answer(group: GroupSnapshot, assignor: ClassicAssignor, dialect: Dialect) -> str:
    try:
        assignment = assignor(group, dialect)
    except AssignmentRefusedError as error:
        return json.dumps({"error": str(error)})
    return json.dumps({str(partition): str(thread) for partition, thread in assignment.items()})


def _parse_case(line: bytes) -> GroupSnapshot:
    """Read a line of the input as a group. Raises: ValueError that says what is wrong."""
    document = read_json(line)
    partitions = {topic: tuple(range(count)) for topic, count in partition_counts(document).items()}
    members = part(document, "members")
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
