"""`legacy-consumer groups delete`."""

from __future__ import annotations

from pathlib import Path

import click

from legacy_consumer.admin.backups import write_backups
from legacy_consumer.admin.deletion import delete_group, delete_topic_of_group
from legacy_consumer.admin.pruning import GroupUse, read_use
from legacy_consumer.cli.changes import progress_bar
from legacy_consumer.cli.group_names import check_group
from legacy_consumer.cli.group_tables import GOOD, count
from legacy_consumer.cli.options import ClusterOptions, cluster_options, load_cluster_config, open_store
from legacy_consumer.cli.tables import printable, say
from legacy_consumer.errors import ActiveGroupError, NoSuchGroupError
from zk_layout.errors import LegacyConsumerError
from zk_layout.paths import ConsumerIdsPath
from zk_layout.store import ZkStore


@click.command(
    epilog="""

\b
Example:
  legacy-consumer groups delete billing-test --execute --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@click.argument("groups", metavar="GROUP...", nargs=-1, required=True)
@click.option("--topic", metavar="TOPIC", help="Only what the groups keep of this topic.")
@click.option("--execute", is_flag=True, help="Do it. Without, it is said what would go.")
@click.option("--dry-run", is_flag=True, help="Only say what would go, which is what happens anyway.")
@click.option(
    "--backup-dir",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Where to write the backup; the current folder otherwise.",
)
@click.option("--no-backup", is_flag=True, help="Write no backup.")
def delete(
    cluster: ClusterOptions,
    groups: tuple[str, ...],
    topic: str | None,
    execute: bool,
    dry_run: bool,
    backup_dir: Path,
    no_backup: bool,
) -> None:
    """Remove what groups left in ZooKeeper: offsets, owners, everything under /consumers/GROUP.

    Refused while a group has members. Before that a backup of the offsets is written, a file that `offsets import` puts
    back.
    """
    if execute and dry_run:
        raise click.UsageError("Give either --execute or --dry-run.")
    for group in groups:
        check_group(group)
    with open_store(load_cluster_config(cluster)) as store:
        use = read_use(store, list(dict.fromkeys(groups)))
        missing = [group for group in groups if group not in {one.group for one in use}]
        if missing:
            raise NoSuchGroupError(missing[0])
        refuse_active(store, use)
        if not execute:
            of_topic = f" of topic {printable(topic)}" if topic is not None else ""
            for one in use:
                many = sum(topic is None or tp.topic == topic for tp in one.offsets)
                say(f"Group {printable(one.group)} would go with {count(many, 'offset')}{of_topic}")
            say("Dry run: nothing was deleted. Add --execute to do it.", "bold")
            return
        delete_all(store, use, topic=topic, backup_dir=None if no_backup else backup_dir)


def refuse_active(store: ZkStore, use: list[GroupUse]) -> None:
    """Raises: ActiveGroupError for the first that has members."""
    for one in use:
        if one.members:
            [ids] = store.get_children_many([ConsumerIdsPath(one.group).path])
            if ids:
                raise ActiveGroupError(one.group, ids)


def delete_all(store: ZkStore, use: list[GroupUse], *, topic: str | None, backup_dir: Path | None) -> None:
    """Back up and delete, one group after the other; an error is preceded by a line that says which are gone."""
    if backup_dir is not None and use:
        name = use[0].group if len(use) == 1 else "groups"
        file = write_backups(backup_dir, name, {one.group: one.offsets for one in use})
        click.echo(f"Backup: {file} (legacy-consumer offsets import puts it back)", err=True)
    gone: list[str] = []
    try:
        with progress_bar("deleting groups", len(use)) as advance:
            for one in use:
                if topic is None:
                    delete_group(store, one.group)
                else:
                    delete_topic_of_group(store, one.group, topic)
                gone.append(one.group)
                advance(1)
    except LegacyConsumerError:
        if gone:
            click.echo(
                f"Deleted before the error: {', '.join(map(printable, gone))}; the groups after these are there, "
                "run the same command again without those that are gone.",
                err=True,
            )
        raise
    what = "" if topic is None else f" topic {printable(topic)} of"
    say(f"Deleted{what}: {', '.join(map(printable, gone))}", GOOD)
