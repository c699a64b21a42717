"""Reads many groups at once. A group that an ACL hides costs only a few more requests for the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from zk_layout.errors import NotPermittedError
from zk_layout.paths import ConsumersPath

T = TypeVar("T")


def read_apart(
    groups: Sequence[str], read: Callable[[Sequence[str]], Sequence[T]]
) -> tuple[list[T], dict[str, NotPermittedError]]:
    """Read groups together, and set apart the groups that an ACL hides.

    Returns: the results of `read` for the readable groups, in order, and {group: error} for the others.
    All groups are read in one call. If an ACL forbids it, the groups are halved until each hidden group stands alone.
    Raises: NotPermittedError for a znode outside the groups; otherwise what `read` raises.
    """
    try:
        return list(read(groups)), {}
    except NotPermittedError as error:
        if not error.path.startswith(f"{ConsumersPath().path}/"):
            raise
        if len(groups) == 1:
            return [], {groups[0]: error}
    half = len(groups) // 2
    first, first_bad = read_apart(groups[:half], read)
    second, second_bad = read_apart(groups[half:], read)
    return first + second, first_bad | second_bad
