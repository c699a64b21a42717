"""Decides whether a member is alive and ready. Pure functions of the member's own report."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance.counters import Vitals
from rebalance.machine import Phase
from rebalance.status import Status
from zk_layout.errors import AuthenticationError

STUCK_AFTER_S = 120.0
"""One step may wait for ZooKeeper, Kafka's coordinator and a listener; a longer step counts as stuck."""
UNASKED_S = 60.0
"""If the user's code asks for no message for longer, the text of readiness says so. Only the user knows the limit."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """holds: healthy, or ready. text: the reason, in one line."""

    holds: bool
    text: str


def judge_liveness(status: Status, vitals: Vitals, stuck_after_s: float = STUCK_AFTER_S) -> Judgement:
    """Return whether the member can still work: its coordinator's thread and a consuming thread live.

    A member that is degraded, or without ZooKeeper, is alive: a restart would only cause rebalances. A member whose
    credentials ZooKeeper refuses is not alive: its session will not come back. A member is not alive either if its
    consuming thread has ended, and for stuck_after_s no other thread has taken over. A living thread that asks for
    nothing may be at work.
    """
    if status.phase is Phase.CREATED:
        return Judgement(True, "not joined yet")
    if status.phase is Phase.CLOSED:
        return Judgement(False, "it has left its group")
    if not vitals.runs:
        return Judgement(False, "the coordinator's thread is dead")
    if isinstance(status.error, AuthenticationError):
        return Judgement(False, str(status.error))
    if vitals.busy_s > stuck_after_s:
        return Judgement(False, f"the coordinator has been in one step for {vitals.busy_s:.0f} s")
    if vitals.deserted_s > stuck_after_s:
        text = f"the thread that consumed has ended, and no other has asked for messages for {vitals.deserted_s:.0f} s"
        return Judgement(False, text)
    return Judgement(True, f"alive, {status.phase.value}")


def judge_readiness(status: Status, vitals: Vitals) -> Judgement:
    """Return whether the member is settled: it owns its share, is connected, and would hand out messages."""
    if status.phase is not Phase.STABLE:
        error = f": {status.error}" if status.error is not None else ""
        return Judgement(False, f"{status.phase.value}{error}")
    if not vitals.connected:
        return Judgement(False, "the connection to ZooKeeper is lost")
    if not vitals.leased:
        return Judgement(
            False, "ZooKeeper has not answered for nearly a session timeout: others may own its partitions"
        )
    if status.held:
        return Judgement(False, f"holds {len(status.held)} partitions while an operator resets their offsets")
    late = ""
    if vitals.unasked_s > UNASKED_S:
        late = f"; the user's code has not asked for messages for {vitals.unasked_s:.0f} s"
    return Judgement(True, f"settled with {len(status.owned)} partitions{late}")
