"""Names of groups on the command line."""

from __future__ import annotations

from collections.abc import Sequence

import click

from legacy_consumer.admin.group_list import list_groups
from legacy_consumer.cli.tables import printable
from legacy_consumer.errors import NoSuchGroupError
from zk_layout.errors import ConfigError
from zk_layout.paths import GroupPath
from zk_layout.store import ZkStore


def check_group(group: str) -> str:
    """The name, if a group can have it. Raises: ConfigError."""
    if not group or group in {".", ".."} or "/" in group or not group.isprintable():
        raise ConfigError("group", printable(group), "is no name that a group can have")
    return group


def check_wanted(groups: Sequence[str], *, all_groups: bool) -> None:
    """Raises: click.UsageError unless groups are named, or all of them are wanted; ConfigError."""
    if bool(groups) == all_groups:
        raise click.UsageError("Name groups, or give --all-groups.")
    for group in groups:
        check_group(group)


def wanted_groups(store: ZkStore, groups: Sequence[str], *, all_groups: bool) -> list[str]:
    """Those named, each once, or all there are. Raises: NoSuchGroupError."""
    if all_groups:
        return list(list_groups(store))
    named = list(dict.fromkeys(groups))
    for group, stat in zip(named, store.exists_many([GroupPath(group).path for group in named]), strict=True):
        if stat is None:
            raise NoSuchGroupError(group)
    return named
