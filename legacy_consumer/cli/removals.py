"""What commands that remove groups have in common: it is said what would go, a backup written, and then it goes."""

from __future__ import annotations

from pathlib import Path

import click

from legacy_consumer.admin.backups import write_backups
from legacy_consumer.admin.deletion import delete_group, delete_topic_of_group
from legacy_consumer.admin.pruning import GroupUse
from legacy_consumer.cli.execution import execution_options
from legacy_consumer.cli.group_tables import GOOD
from legacy_consumer.cli.progress_bar import progress_bar
from legacy_consumer.cli.tables import printable, say
from zk_layout.errors import LegacyConsumerError
from zk_layout.store import ZkStore

removal_options = execution_options(without="it is said what would go", dry_run="say what would go")


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
