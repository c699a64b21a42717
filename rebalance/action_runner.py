"""Carries out the actions that the machine orders, on the coordinator's thread. An action may return the next event."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import partial

from rebalance.actions import (
    Action,
    CancelTimer,
    DropOwnership,
    ForgetGroup,
    GuardOwnership,
    Leave,
    PauseDelivery,
    Rebalance,
    Register,
    ResumeDelivery,
    StartTimer,
)
from rebalance.delivery import Delivery
from rebalance.errors import RebalanceError
from rebalance.events import Event, Expired, Failed, IdTaken, Left, Registered, RegistrationBlocked
from rebalance.machine import MemberState, Phase
from rebalance.mailbox import Mailbox
from rebalance.ownership import Ownership
from rebalance.reader import GroupReader
from rebalance.reconciler import Reconciler
from rebalance.registrar import Registrar
from rebalance.status import level_of
from zk_layout.errors import LegacyConsumerError, SessionExpiredError
from zk_layout.loggers import safe_logger
from zk_layout.shown import in_one_line
from zk_layout.store import WatchEvent, ZkStore

if sys.version_info >= (3, 11):
    from typing import assert_never
else:
    from typing_extensions import assert_never

logger = safe_logger(__name__)


class ActionRunner:
    """Carries out the actions of one member.

    on_id_free: called, on a thread of the store, when another session's znode of the member's id may be gone.
    rest_led: makes a member of a led group write nothing more; None in other groups.
    """

    def __init__(
        self,
        store: ZkStore,
        registrar: Registrar,
        reader: GroupReader,
        ownership: Ownership,
        delivery: Delivery,
        reconciler: Reconciler,
        mailbox: Mailbox,
        on_id_free: Callable[[WatchEvent], None],
        rest_led: Callable[[], None] | None,
    ) -> None:
        self._store = store
        self._registrar = registrar
        self._reader = reader
        self._ownership = ownership
        self._delivery = delivery
        self._reconciler = reconciler
        self._mailbox = mailbox
        self._on_id_free = on_id_free
        self._rest_led = rest_led
        self._name = registrar.consumer_id
        self.has_left_nothing = False
        """Whether the member has left, and nothing of it waits in ZooKeeper for the end of its session."""

    def carry_out(self, action: Action, state: MemberState) -> Event | None:
        """Carry out an action that the machine ordered; return the event that follows. state: the machine's state."""
        match action:
            case Register():
                return self._attempt(partial(self._register, state.session_id), state)
            case Rebalance():
                return self._attempt(partial(self._reconciler.reconcile, action), state)
            case GuardOwnership():
                self._reconciler.guard()
            case StartTimer():
                self._mailbox.set_alarm(action.name, action.delay_ms, action.since_s, no_later=action.no_later)
            case CancelTimer():
                self._mailbox.cancel_alarm(action.name)
            case PauseDelivery():
                self._delivery.pause()
            case ResumeDelivery():
                self._delivery.resume()
            case DropOwnership():
                self._reconciler.drop()
            case ForgetGroup():
                self._reader.forget()
            case Leave():
                return self._leave(state)
            case _:
                assert_never(action)
        return None

    def _attempt(self, what: Callable[[], Event], state: MemberState) -> Event:
        """Turn an error into an event, so that the machine judges it."""
        phase = Phase.LEAVING if state.phase is Phase.CLOSED else state.phase
        try:
            if self._store.session_id != state.session_id:
                if phase is Phase.LEAVING:
                    # the znodes ended with their session; a closed store has no session and posts no event
                    return Expired()
                # The start of the new session is still in the mailbox, and the owned partitions are of the session
                # before it.
                raise SessionExpiredError(f"session 0x{state.session_id:x} is over")
            return what()
        except LegacyConsumerError as error:
            level = level_of(error, state.obstacle, logging.WARNING)
            logger.log(level, "%s: %s failed: %s", self._name, phase.value, error)
            return Failed(error)
        except Exception as error:
            # a defect must not stop the coordinator of a member that stays registered
            failure = RebalanceError(in_one_line(error))
            level = level_of(failure, state.obstacle, logging.ERROR)
            logger.log(level, "%s: %s failed", self._name, phase.value, exc_info=True)
            return Failed(failure)

    def _register(self, session_id: int) -> Event:
        self._ownership.begin_session(session_id)
        is_mine = self._registrar.register(session_id, self._on_id_free)
        if not is_mine and not self._ownership.owned:
            # the new holder of the id can join a led group only after my znodes there are gone
            self._rest()
            self._ownership.leave()
            return RegistrationBlocked()
        self._reader.forget_members(self._name)
        return Registered() if is_mine else IdTaken()

    def _rest(self) -> None:
        """Make a led member write nothing more: it would write again the znodes that it deletes next."""
        if self._rest_led is not None:
            self._rest_led()

    def _leave(self, state: MemberState) -> Event:
        """Leave in order, or in haste if the phase is CLOSED: then partitions that cannot be released are lost."""
        in_haste = state.phase is Phase.CLOSED
        left: Event | None = None
        if state.connected:
            left = self._attempt(self._give_back, state)
            if not in_haste and not isinstance(left, Left):
                return left
        elif self._ownership.owned:
            logger.warning("%s: leaves without a connection, so without a last commit", self._name)
        if not isinstance(left, Left):
            self._reconciler.drop()
        logger.info("%s: left group %s", self._name, self._registrar.group)
        if not self.has_left_nothing and self._store.session_id == state.session_id:
            logger.warning("%s: what it still has in ZooKeeper goes with its session", self._name)
        return Left()

    def _give_back(self) -> Event:
        self._rest()
        refusal = self._reconciler.leave()
        if refusal is not None:
            logger.warning("%s: leaving in order was refused: %s", self._name, refusal)
        self.has_left_nothing = refusal is None
        return Left()
