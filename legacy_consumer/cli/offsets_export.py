"""`legacy-consumer offsets export`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from legacy_consumer.admin.offset_files import OffsetFormat, write_offsets
from legacy_consumer.admin.offset_plans import read_standings, readable_offsets
from legacy_consumer.cli.group_names import check_wanted, wanted_groups
from legacy_consumer.cli.group_tables import count
from legacy_consumer.cli.options import ClusterOptions, cluster_options, load_cluster_config, open_store


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
@click.option("--all-groups", is_flag=True, help="All groups there are, instead of those named.")
@click.option(
    "--output", "file", metavar="FILE", type=click.Path(path_type=Path), help="Where to, instead of printing."
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

    The file is written as a whole, or not at all.
    """
    check_wanted(groups, all_groups=all_groups)
    with open_store(load_cluster_config(cluster)) as store:
        names = wanted_groups(store, groups, all_groups=all_groups)
        found = {group: readable_offsets(group, read_standings(store, group)) for group in names}
    text = write_offsets(found, OffsetFormat.JSON if as_json else OffsetFormat(format_name))
    if file is None:
        click.echo(text, nl=False)
        return
    _write_whole(file, text)
    offsets = sum(map(len, found.values()))
    click.echo(f"{count(offsets, 'offset')} of {count(len(found), 'group')} are in {file}", err=True)


def _write_whole(file: Path, text: str) -> None:
    """Under another name first: what stood there stays if the disk is full."""
    beside = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(file)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise click.ClickException(f"{file} cannot be written: {error.strerror}") from error
