"""What ZooKeeper's answers tell of a change while it is made: whether anything can be changed by now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zk_layout.errors import MultiFailedError, SessionExpiredError
from zk_layout.store import Op, ZkStore


@dataclass(slots=True)
class ChangeProgress:
    """Of one group. is_changed: a multi was carried out. is_unanswered: of the last one it is not known.

    Whatever ends the change, Ctrl-C too, these tell how far it came; the class of the error does not.
    """

    is_changed: bool = False
    is_unanswered: bool = False

    @property
    def may_be_changed(self) -> bool:
        """False only if nothing was sent, or ZooKeeper refused all of it."""
        return self.is_changed or self.is_unanswered

    def multi(self, store: ZkStore, ops: Sequence[Op], *, session_id: int | None = None) -> None:
        """As the store's."""
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
        """The last multi was carried out."""
        self.is_changed, self.is_unanswered = True, False
