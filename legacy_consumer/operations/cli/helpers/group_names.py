"""Names of groups on the command line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import click

from legacy_consumer.errors import NoSuchGroupError
from legacy_consumer.operations.admin.group_list import list_groups
from legacy_consumer.operations.cli.helpers.tables import say_error
from zk_layout.errors import ConfigError
from zk_layout.paths import is_znode_name
from zk_layout.store import ZkStore


def check_group(group: str) -> str:
    """Return the name if a group can have it. Raises: ConfigError."""
    return check_name("group", group)


def check_name(what: str, name: str) -> str:
    """Return the name if ZooKeeper's server accepts it for a znode. Raises: ConfigError."""
    if not is_znode_name(name):
        raise ConfigError(what, name, f"is no name that a {what} can have")
    return name


def check_wanted(groups: Sequence[str], *, all_groups: bool) -> None:
    """Check that either groups are named or all are wanted. Raises: click.UsageError, ConfigError."""
    if bool(groups) == all_groups:
        raise click.UsageError("Name groups, or give --all-groups.")
    for group in groups:
        check_group(group)


def wanted_groups(store: ZkStore, groups: Sequence[str], *, all_groups: bool) -> list[str]:
    """Return the named groups, each once, or all existing groups. The caller finds out whether the named ones exist."""
    return list(list_groups(store)) if all_groups else list(dict.fromkeys(groups))


def say_if_none(found: Collection[object]) -> None:
    """Warn if there is no group at all: an empty output looks as if all were well, and the chroot may be wrong."""
    if not found:
        say_error("There is no group in /consumers.")


def refuse_missing(groups: Sequence[str], found: Iterable[str]) -> None:
    """Raises: NoSuchGroupError for a named group that a command has not found."""
    there = set(found)
    for group in groups:
        if group not in there:
            raise NoSuchGroupError(group)
