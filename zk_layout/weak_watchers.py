"""Holds the watchers of a store, which may wait for years: a bound method only as long as other code holds its object.

A watch on a znode that never changes must not keep a member in memory that has left its group.
"""

from __future__ import annotations

import inspect
from typing import TypeAlias
from weakref import WeakMethod

from zk_layout.store import Watcher

HeldWatcher: TypeAlias = "Watcher | WeakMethod[Watcher]"


def hold(watcher: Watcher) -> HeldWatcher:
    """Return what to keep of a watcher. Equal for equal watchers whose objects live."""
    return WeakMethod(watcher) if inspect.ismethod(watcher) else watcher


def watcher_of(held: HeldWatcher) -> Watcher | None:
    """Return the watcher to call; None if its object is gone."""
    return held() if isinstance(held, WeakMethod) else held
