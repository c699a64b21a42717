"""`legacy-consumer groups verify`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from legacy_consumer.operations.admin.verification import Verification, verify_groups
from legacy_consumer.operations.cli.helpers.group_names import check_wanted, refuse_missing, say_if_none, wanted_groups
from legacy_consumer.operations.cli.helpers.group_tables import BAD, GOOD, ODD, count
from legacy_consumer.operations.cli.helpers.lasting_output import outlasts_reader
from legacy_consumer.operations.cli.helpers.options import (
    ClusterOptions,
    cluster_options,
    load_cluster_config,
    open_store,
)
from legacy_consumer.operations.cli.helpers.outputs import Output, output_options, print_csv, print_json
from legacy_consumer.operations.cli.helpers.tables import say
from rebalance.group_strategy import CLASSIC_STRATEGIES

_FIELDS = ("group", "code", "topic", "partition", "text")
_SHOWN = 100
_BY_NAME = {str(strategy): strategy for strategy in CLASSIC_STRATEGIES}


@click.command(
    epilog="""

\b
Examples:
  legacy-consumer groups verify billing --zookeeper localhost:2181/kafka
  legacy-consumer groups verify --all-groups --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@output_options
@click.argument("groups", metavar="GROUP...", nargs=-1)
@click.option("--all-groups", is_flag=True, help="All groups, instead of GROUP.")
@click.option(
    "--strategy", type=click.Choice(sorted(_BY_NAME)), help="Also check that this strategy chooses the owners."
)
@click.option("--kafka-format", is_flag=True, help="Print the same line as Kafka's VerifyConsumerRebalance.")
@click.pass_context
@outlasts_reader()
def verify(
    ctx: click.Context,
    output: Output,
    cluster: ClusterOptions,
    groups: tuple[str, ...],
    all_groups: bool,
    strategy: str | None,
    kafka_format: bool,
) -> None:
    """Check that every partition has exactly one owner: a live member that subscribes to its topic.

    Kafka's VerifyConsumerRebalance checks the same; this command also checks the sessions of the owners, and owners of
    partitions to which no member subscribes. With --strategy it checks as well that this strategy chooses the owners. A
    group without members and owners is sound.

    The command names a live reset (`offsets reset --live`) that is being carried out, which is no fault. A request for
    a reset without a running command is a fault.

    The exit code is 1 if a group is not sound or cannot be read; the command names every reason.
    """
    check_wanted(groups, all_groups=all_groups)
    if kafka_format and output is not Output.TABLE:
        raise click.UsageError("--kafka-format is a format of its own: leave out --format and --json.")
    wanted = _BY_NAME[strategy] if strategy is not None else None
    with open_store(load_cluster_config(cluster)) as store:
        names = wanted_groups(store, groups, all_groups=all_groups)
        found = verify_groups(store, names, strategy=wanted)
        refuse_missing(groups, (one.group for one in found))
    say_if_none(found)
    if output is Output.JSON:
        documents = [_document(one) for one in found]
        print_json(documents[0] if len(groups) == 1 else documents)
    elif output is Output.CSV:
        print_csv(_FIELDS, [{"group": one.group, **asdict(p)} for one in found for p in one.problems])
    elif kafka_format:
        for one in found:
            click.echo(f"Rebalance operation {'successful' if one.is_sound else 'failed'} !")
    else:
        _show(found)
    ctx.exit(0 if all(one.is_sound for one in found) else 1)


def _document(one: Verification) -> dict[str, object]:
    return {
        "group": one.group,
        "sound": one.is_sound,
        "members": one.members,
        "partitions": one.partitions,
        "divides_by": list(one.divides_by),
        "reset": None if one.running_reset is None else one.running_reset.text,
        "problems": [asdict(problem) for problem in one.problems],
    }


def _show(found: Sequence[Verification]) -> None:
    for one in found:
        _show_one(one)
        if one.running_reset is not None:
            say(f"  reset: {one.running_reset.text}; {one.running_reset.advice}", ODD)


def _show_one(one: Verification) -> None:
    what = f"{count(one.members, 'member')}, {count(one.partitions, 'partition')}"
    if one.is_sound:
        empty = "" if one.members else "; nobody is in it, so there was nothing to check"
        say(f"Group {one.group} is sound: {what}{empty}", GOOD)
        if one.members and one.partitions and not one.divides_by and not one.is_led:
            say("  but no strategy of Kafka makes this assignment: --strategy NAME shows where it differs", ODD)
        return
    say(f"Group {one.group} is not sound: {what}, {count(len(one.problems), 'problem')}", BAD)
    for problem in one.problems[:_SHOWN]:
        say(f"  {problem.text}")
    if len(one.problems) > _SHOWN:
        say(f"  and {len(one.problems) - _SHOWN} more; --json has them all")
