"""Reads many groups at once, so that one that may not be read costs the others nothing but a few requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from zk_layout.errors import NotPermittedError
from zk_layout.paths import ConsumersPath

T = TypeVar("T")


def read_apart(
    groups: Sequence[str], read: Callable[[Sequence[str]], Sequence[T]]
) -> tuple[list[T], dict[str, NotPermittedError]]:
    """What `read` makes of all groups that may be read, in their order; and why the others may not: {group: error}.

    All are read together. Only when an ACL forbids something are they halved, until each bad group stands alone.
    Raises: NotPermittedError for what is not a group's; others as read.
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
