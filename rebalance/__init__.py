"""Who owns what: from a picture of a group to an assignment, a plan, and owner znodes that show it.

A name is imported when it is first used: a command that needs one znode does not wait for all that is known of others.
"""

from typing import TYPE_CHECKING

from zk_layout.lazy_names import lazy_names

if TYPE_CHECKING:
    from rebalance.assignors import ASSIGNORS, DIALECTS, ClassicAssignor, Dialect, range_assign, roundrobin_assign
    from rebalance.clock import Clock, SystemClock
    from rebalance.coordinator import Coordinator
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
    from rebalance.status import Status
    from rebalance.subscription import Blacklist, TopicFilter, Whitelist, subscribed_topics
    from rebalance.upkeep import Periods


__all__ = [
    "ASSIGNORS",
    "DIALECTS",
    "Assignment",
    "AssignmentRefusedError",
    "Blacklist",
    "ClassicAssignor",
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

__getattr__, __dir__ = lazy_names(
    __name__,
    __all__,
    (
        "rebalance.errors",
        "rebalance.clock",
        "rebalance.snapshot",
        "rebalance.plan",
        "rebalance.subscription",
        "rebalance.delivery",
        "rebalance.assignors",
        "rebalance.ownership",
        "rebalance.reader",
        "rebalance.registrar",
        "rebalance.machine",
        "rebalance.status",
        "rebalance.upkeep",
        "rebalance.coordinator",
    ),
)
