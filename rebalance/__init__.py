"""Who owns what: from a picture of a group to an assignment, a plan, and owner znodes that show it.

A name is imported when it is first used: a command that needs one znode does not wait for all that is known of others.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rebalance.assignors import ASSIGNORS, DIALECTS, Assignor, Dialect, range_assign, roundrobin_assign
    from rebalance.clock import Clock, SystemClock
    from rebalance.coordinator import Coordinator, Periods, Status
    from rebalance.delivery import Delivery
    from rebalance.errors import (
        AssignmentRefusedError,
        ConsumerRebalanceFailedError,
        MissingTopicError,
        PartitionOwnedError,
        RebalanceError,
        RegistrationConflictError,
        StrategyMismatchError,
        UnsupportedRegexError,
    )
    from rebalance.machine import MemberState, Phase, Policy, step
    from rebalance.ownership import Ownership
    from rebalance.plan import Plan, make_plan, owned_by
    from rebalance.reader import GroupReader
    from rebalance.registrar import Registrar
    from rebalance.snapshot import Assignment, GroupSnapshot
    from rebalance.subscription import Blacklist, TopicFilter, Whitelist, subscribed_topics


__all__ = [
    "ASSIGNORS",
    "DIALECTS",
    "Assignment",
    "AssignmentRefusedError",
    "Assignor",
    "Blacklist",
    "Clock",
    "ConsumerRebalanceFailedError",
    "Coordinator",
    "Delivery",
    "Dialect",
    "GroupReader",
    "GroupSnapshot",
    "MemberState",
    "MissingTopicError",
    "Ownership",
    "PartitionOwnedError",
    "Periods",
    "Phase",
    "Plan",
    "Policy",
    "RebalanceError",
    "Registrar",
    "RegistrationConflictError",
    "Status",
    "StrategyMismatchError",
    "SystemClock",
    "TopicFilter",
    "UnsupportedRegexError",
    "Whitelist",
    "make_plan",
    "owned_by",
    "range_assign",
    "roundrobin_assign",
    "step",
    "subscribed_topics",
]

_MODULES = (
    "errors",
    "clock",
    "snapshot",
    "plan",
    "subscription",
    "delivery",
    "assignors",
    "ownership",
    "reader",
    "registrar",
    "machine",
    "coordinator",
)


def __getattr__(name: str) -> object:
    if name in __all__:
        for module in _MODULES:
            found = vars(import_module(f"{__name__}.{module}"))
            if name in found:
                globals()[name] = found[name]
                return found[name]
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
