"""`legacy-consumer offsets export`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from legacy_consumer.errors import NoSuchGroupError
from legacy_consumer.offsets.topic_partitions import TopicsOnce
from legacy_consumer.operations.admin.offset_files import OffsetFormat, marks_of, write_offsets
from legacy_consumer.operations.admin.offset_plans import Standing, read_standings
from legacy_consumer.operations.admin.whole_files import replace_whole
from legacy_consumer.operations.cli.helpers.group_names import check_wanted, say_if_none, wanted_groups
from legacy_consumer.operations.cli.helpers.group_tables import count
from legacy_consumer.operations.cli.helpers.options import (
    ClusterOptions,
    cluster_options,
    load_cluster_config,
    open_store,
)
from legacy_consumer.operations.cli.helpers.outputs import require_output
from legacy_consumer.operations.cli.helpers.tables import say_error
from zk_layout.errors import NotPermittedError
from zk_layout.model import TopicPartition
from zk_layout.store import ZkStore


@click.command(
    epilog="""

\b
Examples:
  legacy-consumer offsets export billing --zookeeper localhost:2181/kafka
  legacy-consumer offsets export --all-groups --format json --output offsets.json --zookeeper localhost:2181/kafka
"""
)
@cluster_options
@click.argument("groups", metavar="GROUP...", nargs=-1)
@click.option("--all-groups", is_flag=True, help="All groups, instead of GROUP.")
@click.option(
    "--output", "file", metavar="FILE", type=click.Path(path_type=Path), help="The file to write; - or no value prints."
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice([form.value for form in OffsetFormat]),
    default=OffsetFormat.ZK.value,
    show_default=True,
    help="zk: lines as Kafka's ExportZkOffsets writes and its ImportZkOffsets reads them.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def export(
    cluster: ClusterOptions,
    groups: tuple[str, ...],
    all_groups: bool,
    file: Path | None,
    format_name: str,
    as_json: bool,
) -> None:
    """Write the offsets of groups, for `offsets import`, `offsets reset --from-file` or Kafka's ImportZkOffsets.

    The file is written as a whole, or not at all. An unreadable offset, and a group that an ACL forbids to read, are
    named on standard error and left out; the exit code is then 1. JSON contains the text of an unreadable offset.
    """
    check_wanted(groups, all_groups=all_groups)
    with open_store(load_cluster_config(cluster)) as store:
        names = wanted_groups(store, groups, all_groups=all_groups)
        once = TopicsOnce(store)
        found, problems = _read(store, names, once, all_groups=all_groups)
        written = [(tp, standing.zxid) for standings in found.values() for tp, standing in standings.items()]
        named = {tp.topic for tp, _ in written}
        topics = marks_of(named, once.origins(named), written)
    say_if_none(names)
    form = OffsetFormat.JSON if as_json else OffsetFormat(format_name)
    offsets = {group: _committed(standings) for group, standings in found.items()}
    unreadable = {group: _unreadable(standings) for group, standings in found.items()}
    data = write_offsets(offsets, form, unreadable, topics=topics).encode()
    for problem in problems:
        say_error(f"Left out: {problem}")
    if file is None or str(file) == "-":
        require_output()
        click.echo(data, nl=False)
    else:
        try:
            replace_whole(file, data.decode())
        except OSError as error:
            raise click.ClickException(f"{file} cannot be written: {error.strerror}") from error
        many = sum(map(len, offsets.values()))
        say_error(f"{count(many, 'offset')} of {count(len(found), 'group')} are in {file}")
    if problems:
        raise click.exceptions.Exit(1)


def _read(
    store: ZkStore, groups: Sequence[str], topics: TopicsOnce, *, all_groups: bool
) -> tuple[dict[str, Mapping[TopicPartition, Standing]], list[str]]:
    """Return the offsets that can be read, and why others cannot.

    With all groups wanted, a group that is deleted meanwhile is left out. Raises: NoSuchGroupError, ZooKeeperError.
    """
    found: dict[str, Mapping[TopicPartition, Standing]] = {}
    problems: list[str] = []
    for group in groups:
        try:
            found[group] = read_standings(store, group, topics)
        except NotPermittedError as error:
            if len(groups) == 1:
                raise
            problems.append(str(error))
        except NoSuchGroupError:
            if not all_groups:
                raise
        else:
            problems += [standing.problem for standing in found[group].values() if standing.problem is not None]
    return found, problems


def _committed(standings: Mapping[TopicPartition, Standing]) -> dict[TopicPartition, int | None]:
    return {tp: offset for tp, standing in standings.items() if (offset := standing.elsewhere) is not None}


def _unreadable(standings: Mapping[TopicPartition, Standing]) -> dict[TopicPartition, bytes]:
    return {tp: standing.unreadable for tp, standing in standings.items() if standing.unreadable is not None}
