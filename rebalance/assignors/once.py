"""One assignment for all members of a process: they see the same group and would all compute the same.

A process with fifty members computed each assignment fifty times, one after another for want of a second interpreter
lock, and that was most of what a rebalance took.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import MappingProxyType

from rebalance.assignors.roundrobin import Dialect
from rebalance.snapshot import Assignment, GroupSnapshot

_REMEMBERED = 8
"""Of different groups, or of one that changes quickly."""

_lock = threading.Lock()
_recent: deque[tuple[Callable[[GroupSnapshot, Dialect], Assignment], Dialect, GroupSnapshot, Assignment]] = deque(
    maxlen=_REMEMBERED
)


def assign_once(
    assign: Callable[[GroupSnapshot, Dialect], Assignment], dialect: Dialect, group: GroupSnapshot
) -> Assignment:
    """What this assignor makes of the group: an earlier answer to the same question, or a new one. Read-only.

    Raises: what the assignor raises, which is not remembered.
    """
    with _lock:
        for known_assign, known_dialect, known_group, assignment in reversed(_recent):
            if known_assign is assign and known_dialect == dialect and _is_the_same(known_group, group):
                return assignment
        made = MappingProxyType(assign(group, dialect))
        _recent.append((assign, dialect, group, made))
        return made


def _is_the_same(one: GroupSnapshot, other: GroupSnapshot) -> bool:
    """As far as an assignor looks; the registrations of a process are mostly the very same objects."""
    return one is other or (
        one.group == other.group
        and one.partitions == other.partitions
        and one.members == other.members
        and list(one.members) == list(other.members)
        and one.exclude_internal_topics == other.exclude_internal_topics
    )
