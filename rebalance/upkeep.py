"""Runs a member's periodic tasks, independent of its group: commits, and audits of its own znodes."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from rebalance.delivery import Delivery
from rebalance.errors import UnexpectedError
from rebalance.events import Event
from rebalance.machine import MemberState
from rebalance.mailbox import Chore, Mailbox
from rebalance.reconciler import Reconciler
from rebalance.registrar import Registrar
from rebalance.status import Report
from zk_layout.errors import LegacyConsumerError, NotPermittedError
from zk_layout.loggers import safe_logger
from zk_layout.shown import in_one_line

logger = safe_logger(__name__)


@dataclass(frozen=True, slots=True)
class Periods:
    """The time from one run of a chore to the next, in milliseconds; 0 = never."""

    commit_ms: int
    audit_ms: int


class Upkeep:
    """The periodic tasks of one member. Used by the coordinator's thread alone."""

    def __init__(
        self,
        periods: Periods,
        mailbox: Mailbox,
        delivery: Delivery,
        registrar: Registrar,
        reconciler: Reconciler,
        report: Report,
    ) -> None:
        self._periods_ms = {Chore.COMMIT: periods.commit_ms, Chore.AUDIT: periods.audit_ms}
        self._mailbox = mailbox
        self._delivery = delivery
        self._registrar = registrar
        self._reconciler = reconciler
        self._report = report
        self._name = registrar.consumer_id

    def plan(self, chore: Chore) -> None:
        """Set the alarm for the next run of the chore."""
        if self._periods_ms[chore] > 0:
            self._mailbox.set_alarm(chore, self._periods_ms[chore])

    def do(self, chore: Chore, state: MemberState) -> Event | None:
        """Run the task once, and return the resulting event, if any; after an error the next run tries again.

        An unforeseen error is logged once, and shown until the same task succeeds again.
        """
        # before the task runs: an unforeseen error must not end all later commits
        self.plan(chore)
        if not state.connected or (chore is Chore.COMMIT and not self._reconciler.may_commit):
            return None
        following: Event | None = None
        try:
            if chore is Chore.COMMIT:
                self._delivery.commit()
            else:
                following = self._audit(state)
        except LegacyConsumerError as error:
            level = logging.WARNING if chore is Chore.COMMIT else logging.INFO
            again_ms = self._periods_ms[chore]
            logger.log(level, "%s: %s failed, tried again in %d ms: %s", self._name, chore.value, again_ms, error)
        except Exception as error:
            self._report.counters.unexpected_errors += 1
            unexpected = UnexpectedError(f"{chore.value}: {in_one_line(error)}")
            if str(self._report.unexpected.get(chore.value)) != str(unexpected):
                logger.exception("%s: %s failed, goes on with the next one", self._name, chore.value)
            self._report.unexpected[chore.value] = unexpected
        else:
            self._report.unexpected.pop(chore.value, None)
        return following

    def _audit(self, state: MemberState) -> Event | None:
        try:
            self._registrar.mend(state.session_id)
        except NotPermittedError as error:
            # the member learns with the next change of the group whether the others still see it
            logger.info("%s: cannot read its registration, or write it again: %s", self._name, error)
        # in every phase: a member that cannot begin one partition delivers the others, for days perhaps
        following = self._reconciler.audit()
        if following is None:
            # sends nothing for owner znodes that are watched already
            self._reconciler.guard()
        return following
