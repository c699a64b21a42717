"""`legacy-consumer groups delete`."""

from __future__ import annotations

import click

from legacy_consumer.errors import NoSuchGroupError
from legacy_consumer.operations.admin.deletion import refuse_held
from legacy_consumer.operations.admin.findings import some
from legacy_consumer.operations.admin.pruning import GroupUse, read_use, refuse_removal
from legacy_consumer.operations.cli.helpers.execution import Execution
from legacy_consumer.operations.cli.helpers.group_names import check_group, check_name
from legacy_consumer.operations.cli.helpers.group_tables import count
from legacy_consumer.operations.cli.helpers.options import (
    ClusterOptions,
    cluster_options,
    load_cluster_config,
    open_store,
)
from legacy_consumer.operations.cli.helpers.removals import delete_all, removal_options, say_migrated
from legacy_consumer.operations.cli.helpers.tables import say, say_error


@click.command(
    epilog="""

\b
Example:
  legacy-consumer groups delete billing-test --execute --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@click.argument("groups", metavar="GROUP...", nargs=-1, required=True)
@click.option("--topic", metavar="TOPIC", help="Only the znodes of this topic.")
@removal_options
def delete(
    execution: Execution,
    cluster: ClusterOptions,
    groups: tuple[str, ...],
    topic: str | None,
) -> None:
    """Remove groups from ZooKeeper: offsets, owners, everything under /consumers/GROUP.

    Refused while a group has members, or a session holds one of the znodes. Without --topic also while a migration is
    open; with --topic a rollback is refused afterwards until you decide about that topic. First the command writes a
    backup of the offsets, which `offsets import` restores. It does not delete znodes that another client writes
    meanwhile.
    """
    for group in groups:
        check_group(group)
    if topic is not None:
        check_name("topic", topic)
    with open_store(load_cluster_config(cluster)) as store:
        use = read_use(store, list(dict.fromkeys(groups)))
        missing = [group for group in groups if group not in {one.group for one in use}]
        if missing:
            raise NoSuchGroupError(missing[0])
        if topic is not None and ":" in topic and not any(one.tree.below(topic) for one in use):
            raise click.UsageError(
                f"--topic {topic!r}: name a topic without its partitions. `offsets export` and `offsets import` keep "
                "the offsets of the others."
            )
        for one in use:
            refuse_held(store, one.tree, topic)
        refuse_removal(use, topic)
        if topic is None:
            say_migrated(use)
        else:
            bare = [one.group for one in use if not one.tree.below(topic)]
            if bare:
                say_error(f"Note: left out, without a znode of topic {topic}: {some(bare)}")
            use = [one for one in use if one.group not in bare]
            _say_open_migrations(use, topic)
        if not execution.execute:
            for one in use:
                offsets = count(sum(topic is None or tp.topic == topic for tp in one.tree.offsets), "offset")
                what = f", with {offsets}," if topic is None else f": {offsets} of topic {topic}"
                say(f"Group {one.group}{what} would be deleted")
            say("Dry run: nothing was deleted. Add --execute to do it.", "bold")
            return
        delete_all(store, use, topic=topic, backup_dir=execution.backup_dir)


def _say_open_migrations(use: list[GroupUse], topic: str) -> None:
    migrating = [one.group for one in use if one.open_migration is not None]
    if migrating:
        say_error(
            f"Note: a migration is open: {some(migrating)}. Without these offsets `migrate rollback` is refused until "
            f"you decide about topic {topic}: --accept-ahead or --skip-blocked"
        )
