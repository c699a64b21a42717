"""`legacy-consumer migrate`: moves a group's offsets from ZooKeeper to Kafka, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

import click

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.errors import BrokersUnavailableError, MigrationRefusedError
from legacy_consumer.fetching.brokers import read_brokers
from legacy_consumer.fetching.librdkafka import open_group_offsets, open_log_offsets
from legacy_consumer.fetching.librdkafka.client_groups import read_kafka_members
from legacy_consumer.operations.admin.change_progress import ChangeProgress
from legacy_consumer.operations.admin.errors import DamagedRecordError
from legacy_consumer.operations.admin.findings import shell_command
from legacy_consumer.operations.admin.group_list import list_groups
from legacy_consumer.operations.admin.group_trees import read_trees, record_path
from legacy_consumer.operations.admin.migration import (
    Action,
    Choices,
    Direction,
    Sides,
    apply_migration,
    finish_migration,
    look_at,
    make_plan,
    read_records,
    roll_back_migration,
    verify_migration,
)
from legacy_consumer.operations.admin.migration.backup import backup_file
from legacy_consumer.operations.admin.migration.finish import finish_refusals
from legacy_consumer.operations.admin.migration.picture import has_offsets_in_kafka
from legacy_consumer.operations.admin.migration.record import decode_record, forget_record
from legacy_consumer.operations.cli.helpers.ending import unwound_by_signals
from legacy_consumer.operations.cli.helpers.execution import say_touched
from legacy_consumer.operations.cli.helpers.group_names import check_group
from legacy_consumer.operations.cli.helpers.group_tables import count
from legacy_consumer.operations.cli.helpers.lasting_output import outlasts_reader
from legacy_consumer.operations.cli.helpers.migrate_tables import (
    outcome_document,
    plan_document,
    records_document,
    say_outcome,
    say_refusals,
    show_plan,
    show_records,
    show_verification,
    verification_document,
)
from legacy_consumer.operations.cli.helpers.options import (
    ClusterOptions,
    cluster_options,
    load_cluster_config,
    missing_zookeeper_is_misuse,
    open_store,
)
from legacy_consumer.operations.cli.helpers.progress_bar import progress_bar
from legacy_consumer.operations.cli.helpers.tables import say, say_error
from rebalance.clock import SystemClock
from zk_layout.store import ZkStore

P = ParamSpec("P")
R = TypeVar("R")

_ANSWER_S = 15.0

_rolling = click.option(
    "--rolling",
    is_flag=True,
    help="The group has members, which move one by one; write only partitions without an owner.",
)
_backup = click.option(
    "--backup",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A new file for a backup of both sides' offsets. Default: migration-GROUP-TIME.json in the current folder.",
)
_accept_ahead = click.option(
    "--accept-ahead",
    is_flag=True,
    help="Messages between the offset in ZooKeeper and the greater one in Kafka were consumed.",
)
_skip_blocked = click.option("--skip-blocked", is_flag=True, help="Leave out blocked partitions.")
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def _execute(command: Callable[P, R]) -> Callable[P, R]:
    option = click.option(
        "--execute", is_flag=True, help="Carry it out. Without this option the command only shows the plan."
    )
    # a step reports what it has written, whichever signal ends it
    return option(unwound_by_signals()(outlasts_reader("execute")(command)))


@click.group()
def migrate() -> None:
    """Move a group's offsets from ZooKeeper into Kafka, and back.

    For a stopped group: stop its members, `apply`, start the newer consumers, `verify`, and when no rollback is needed
    any more, `finish`. To go back before that: stop the newer consumers, `rollback`, start the members.

    If the members must not stop together: restart each with offsets.storage=kafka and dual.commit.enabled=true;
    `verify` names the members that remain. Then `apply --rolling` for partitions without an owner, stop all members,
    `apply` and start the newer consumers. An offset that is ahead on the other side stays.
    """


@contextmanager
def _sides(cluster: ClusterOptions, group: str) -> Iterator[Sides]:
    with missing_zookeeper_is_misuse():
        config = ConsumerConfig.load(cluster.config_file, {**cluster.overrides(), "group.id": group})
    with open_store(config) as store:
        _check_brokers(store)
        with (
            closing(open_group_offsets(config, store)) as kafka,
            closing(open_log_offsets(config, store, timeout_s=_ANSWER_S)) as log_offsets,
        ):
            yield Sides(group, store, kafka, log_offsets, lambda: read_kafka_members(config, store, group, _ANSWER_S))


def _check_brokers(store: ZkStore) -> None:
    old = [broker.broker_id for broker in read_brokers(store) if broker.version < 2]
    if old:
        raise BrokersUnavailableError(
            f"broker {old[0]} is a Kafka 0.8, which has no consumers of the newer kind: upgrade to 0.9 or newer first"
        )


@migrate.command(
    epilog="""

\b
Example:
  legacy-consumer migrate plan billing --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@click.argument("group")
@_rolling
@click.option("--back", is_flag=True, help="Show the plan of a rollback: from Kafka to ZooKeeper.")
@_accept_ahead
@_skip_blocked
@_json
@outlasts_reader()
def plan(
    cluster: ClusterOptions,
    group: str,
    rolling: bool,
    back: bool,
    accept_ahead: bool,
    skip_blocked: bool,
    as_json: bool,
) -> None:
    """Show the planned change of each partition, and the obstacles. Writes nothing.

    The exit code is 1 if the step would be refused now.
    """
    direction = Direction.TO_ZOOKEEPER if back else Direction.TO_KAFKA
    with _sides(cluster, group) as sides:
        found = make_plan(look_at(sides), direction, Choices(rolling, accept_ahead, skip_blocked))
    if as_json:
        click.echo(json.dumps(plan_document(found), indent=2))
    else:
        show_plan(found)
    if found.refusals:
        say_refusals(found.refusals)
        raise click.exceptions.Exit(1)


@migrate.command(
    epilog="""

\b
Example:
  legacy-consumer migrate apply billing --execute --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@click.argument("group")
@_rolling
@_accept_ahead
@_skip_blocked
@_execute
@_backup
@_json
def apply(
    cluster: ClusterOptions,
    group: str,
    rolling: bool,
    accept_ahead: bool,
    skip_blocked: bool,
    execute: bool,
    backup: Path | None,
    as_json: bool,
) -> None:
    """Copy the group's offsets into Kafka. Shows the plan; writes with --execute only.

    Refused while the group has members, unless --rolling. ZooKeeper's offsets stay. You may repeat the command at any
    time: it continues where it stopped, and writes only offsets that are behind.
    """
    choices = Choices(rolling, accept_ahead, skip_blocked)
    _step(cluster, group, Direction.TO_KAFKA, choices, execute=execute, backup=backup, as_json=as_json)


@migrate.command(
    epilog="""

\b
Example:
  legacy-consumer migrate rollback billing --execute --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@click.argument("group")
@_rolling
@_accept_ahead
@_skip_blocked
@_execute
@_backup
@_json
def rollback(
    cluster: ClusterOptions,
    group: str,
    rolling: bool,
    accept_ahead: bool,
    skip_blocked: bool,
    execute: bool,
    backup: Path | None,
    as_json: bool,
) -> None:
    """Copy offsets from Kafka back to ZooKeeper, if they are ahead. Writes with --execute only.

    Refused while newer consumers are in the group, and after `finish`. Kafka's offsets stay. If another client moved an
    offset in ZooKeeper after `apply`, the command refuses without --accept-ahead or --skip-blocked.
    """
    choices = Choices(rolling, accept_ahead, skip_blocked)
    _step(cluster, group, Direction.TO_ZOOKEEPER, choices, execute=execute, backup=backup, as_json=as_json)


def _step(
    cluster: ClusterOptions,
    group: str,
    direction: Direction,
    choices: Choices,
    *,
    execute: bool,
    backup: Path | None,
    as_json: bool,
) -> None:
    with _sides(cluster, group) as sides:
        found = make_plan(look_at(sides, will_write=execute), direction, choices)
        if not as_json:
            show_plan(found)
        if not execute:
            if as_json:
                click.echo(json.dumps(plan_document(found), indent=2))
            if found.refusals:
                say_refusals(found.refusals)
                raise click.exceptions.Exit(1)
            say_error("Nothing was written: add --execute to do it.")
            return
        carry_out = apply_migration if direction is Direction.TO_KAFKA else roll_back_migration
        file = backup or backup_file(group, sides.clock.wall_ms())
        with progress_bar(f"writing offsets to {direction.target}", len(found.having(Action.WRITE))) as advance:
            outcome = carry_out(sides, found, file, advance)
    if as_json:
        click.echo(json.dumps(outcome_document(group, outcome), indent=2))
    else:
        say_outcome(group, direction, outcome)


@migrate.command(
    epilog="""

\b
Example:
  legacy-consumer migrate verify billing --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@click.argument("group")
@_json
@outlasts_reader()
def verify(cluster: ClusterOptions, group: str, as_json: bool) -> None:
    """Compare both sides, and name partitions whose messages would be lost or read twice.

    The command finds offsets that are missing in Kafka, members that commit only to ZooKeeper, and partitions that both
    sides read. The exit code is 0 if no message would be lost or read twice, else 1, with a remedy for each finding.
    """
    with _sides(cluster, group) as sides:
        found = verify_migration(look_at(sides))
    if as_json:
        click.echo(json.dumps(verification_document(found), indent=2))
    else:
        show_verification(found)
    if not found.is_sound:
        raise click.exceptions.Exit(1)


@migrate.command(
    epilog="""

\b
Example:
  legacy-consumer migrate finish billing --execute --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@click.argument("group")
@click.option("--delete", is_flag=True, help="Also delete /consumers/GROUP with all its znodes.")
@_accept_ahead
@_execute
@_backup
def finish(
    cluster: ClusterOptions, group: str, delete: bool, accept_ahead: bool, execute: bool, backup: Path | None
) -> None:
    """End the migration; `rollback` is refused afterwards. Writes with --execute only.

    Refused while the group has members in ZooKeeper, while an offset is missing in Kafka, and while you have not
    decided about a partition that was left out of the migration. --delete is refused for the same reasons, also after a
    finish without it.
    """
    with _sides(cluster, group) as sides:
        trees = read_trees(
            sides.store, [group]
        )  # before the look: what is deleted is not newer than what was looked at
        if delete and not trees and has_offsets_in_kafka(sides):
            click.echo(f"/consumers/{group} is deleted already.")
            return
        look = look_at(sides)
        what = "closes the way back" + (f" and deletes /consumers/{group}" if delete else "")
        moved = sum(one.kafka.offset is not None for one in look.partitions)
        say(f"Group {group}: {what}; {count(moved, 'partition')} of {len(look.partitions)} in Kafka.")
        refusals = finish_refusals(look, accept_ahead=accept_ahead)
        if not execute:
            if refusals:
                say_refusals(refusals)
                raise click.exceptions.Exit(1)
            say_error("Nothing was written: add --execute to do it.")
            return
        file = backup or backup_file(group, sides.clock.wall_ms())
        tree = trees[0] if delete and trees else None
        progress = ChangeProgress()
        try:
            finish_migration(sides, look, file, delete=tree, accept_ahead=accept_ahead, progress=progress)
        except BaseException as error:
            say_touched(error, {group: progress}, ())
            if progress.may_be_changed:
                say_error(f"The offsets of both sides before are in {file}.")
            raise
    click.echo(f"Finished. The offsets of both sides before are in {file}.")


@migrate.command(
    epilog="""

\b
Example:
  legacy-consumer migrate forget billing --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@click.argument("group")
@_execute
@_backup
def forget(cluster: ClusterOptions, group: str, execute: bool, backup: Path | None) -> None:
    """Delete an unreadable record of a migration. Writes with --execute only; the backup holds its data.

    The offsets stay, on both sides. The migration then counts as not begun, so `apply` asks about partitions in which
    Kafka is ahead of ZooKeeper. If all those messages were consumed, `apply --accept-ahead` begins the migration again,
    and a rollback is possible again.
    """
    check_group(group)
    with open_store(load_cluster_config(cluster)) as store:
        [damaged] = store.get_data_many([record_path(group)])
        if damaged is None:
            click.echo(f"Group {group} has no record of a migration.")
            return
        try:
            phase = decode_record(group, damaged).phase.value
        except DamagedRecordError as error:
            say(error.problem)
        else:
            raise MigrationRefusedError(group, (f"its record can be read: the migration is {phase}",))
        if not execute:
            say_error("Nothing was written: add --execute to delete it.")
            return
        file = backup or backup_file(group, SystemClock().wall_ms(), ".record")
        forget_record(store, group, damaged, file)
    anew = shell_command(group, "migrate", "plan")
    click.echo(f"Deleted; its data is in {file}. The offsets stay where they are: see {anew}.")


@migrate.command(
    epilog="""

\b
Example:
  legacy-consumer migrate status --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@_json
def status(cluster: ClusterOptions, as_json: bool) -> None:
    """List every group with a migration, its state, and the number of partitions that were left out.

    The exit code is 1 if a record cannot be read; the others are shown.
    """
    with open_store(load_cluster_config(cluster)) as store:
        records = read_records(store, list_groups(store))
    if as_json:
        click.echo(json.dumps(records_document(records), indent=2))
    else:
        show_records(records, SystemClock().wall_ms())
    if any(isinstance(record, str) for record in records.values()):
        raise click.exceptions.Exit(1)
