"""Records whether ZooKeeper has carried out a part of a change so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zk_layout.errors import MultiFailedError, SessionExpiredError
from zk_layout.store import Op, ZkStore


@dataclass(slots=True)
class ChangeProgress:
    """The progress of one group's change. It stays true however the change ends, also by Ctrl-C.

    is_changed: ZooKeeper has carried out a multi. is_unanswered: ZooKeeper has not answered the last multi.
    """

    is_changed: bool = False
    is_unanswered: bool = False

    @property
    def may_be_changed(self) -> bool:
        """Return whether ZooKeeper has carried out a multi, or may have; false if it refused every multi."""
        return self.is_changed or self.is_unanswered

    def multi(self, store: ZkStore, ops: Sequence[Op], *, session_id: int | None = None) -> None:
        """Send a multi and note the answer. Raises: as the store's multi."""
        self.is_unanswered = True
        try:
            store.multi(ops, session_id=session_id)
        except MultiFailedError:
            self.is_unanswered = False
            raise
        except SessionExpiredError:
            # a multi for one session is refused in another
            self.is_unanswered = session_id is None
            raise
        self.found_done()

    def found_done(self) -> None:
        """Note that ZooKeeper carried out the last multi."""
        self.is_changed, self.is_unanswered = True, False
