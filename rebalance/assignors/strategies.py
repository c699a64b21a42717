"""A table of all values of partition.assignment.strategy; and users' own assignors by import path."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from rebalance.assignors.failover import FailoverAssignor
from rebalance.assignors.kafka_range import RangeAssignor
from rebalance.assignors.kafka_roundrobin import RoundRobinAssignor
from rebalance.assignors.range import range_assign
from rebalance.assignors.roundrobin import roundrobin_assign
from rebalance.assignors.seam import Assignor, AssignorProperty, PropertyValue, RebalanceProtocol
from rebalance.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from rebalance.dialects import DIALECTS, Dialect
from rebalance.errors import UnknownAssignorError
from rebalance.snapshot import Assignment, GroupSnapshot
from zk_layout.shown import in_one_line
from zk_layout.typed_texts import true_or_false, whole_number

ClassicAssignor: TypeAlias = Callable[[GroupSnapshot, Dialect], Assignment]


class Strategy(NamedTuple):
    """The meaning of one value of partition.assignment.strategy.

    assignor: that of a coordinated group. java_class: its name in Java's configuration files, if Java has it. classic:
    the rule by which each member of a classic group computes the assignment, if there is one; dialects: the versions of
    this rule, if there are several.
    """

    assignor: type[Assignor]
    java_class: str | None
    classic: ClassicAssignor | None = None
    dialects: tuple[Dialect, ...] = ()


_LONGEST_NAME = 100
_JAVA = "org.apache.kafka.clients.consumer."

STRATEGIES: Mapping[str, Strategy] = {
    strategy.assignor.name: strategy
    for strategy in (
        # range is the same in every version
        Strategy(RangeAssignor, f"{_JAVA}RangeAssignor", lambda group, _dialect: range_assign(group)),
        Strategy(RoundRobinAssignor, f"{_JAVA}RoundRobinAssignor", roundrobin_assign, DIALECTS),
        Strategy(StickyAssignor, f"{_JAVA}StickyAssignor"),
        Strategy(CooperativeStickyAssignor, f"{_JAVA}CooperativeStickyAssignor"),
        Strategy(FailoverAssignor, None),
    )
}
DEFAULT_STRATEGY = RangeAssignor.name

_BY_JAVA_CLASS = {
    strategy.java_class: strategy.assignor for strategy in STRATEGIES.values() if strategy.java_class is not None
}


def make_assignors(names: str, properties: Mapping[str, str]) -> tuple[Assignor, ...]:
    """Return the assignors of `roundrobin,mypackage.assigning:ByRack`, in this order of preference.

    A name is one of STRATEGIES, a Java class name of one of them, or module:class. properties: all properties of the
    consumer as text; each assignor gets the ones that it declares.
    Raises: UnknownAssignorError if a name is unknown or occurs twice, or a property is wrong.
    """
    made: dict[str, Assignor] = {}
    for name in (part.strip() for part in names.split(",")):
        assignor = make_assignor(name, properties)
        if assignor.name in made:
            raise UnknownAssignorError(name, f"{assignor.name} is named twice")
        made[assignor.name] = assignor
    return tuple(made.values())


def assignor_classes(names: str) -> list[type[Assignor]]:
    """Return the classes of the assignors with these names, in their order. Raises: UnknownAssignorError."""
    return [_find(part.strip()) for part in names.split(",")]


def make_assignor(name: str, properties: Mapping[str, str]) -> Assignor:
    """Return one configured assignor. Raises: UnknownAssignorError."""
    kind = _find(name)
    try:
        assignor = kind()
        assignor.configure({known.name: _value_of(name, known, properties) for known in kind.properties})
    except UnknownAssignorError:
        raise
    except (Exception, SystemExit) as error:
        raise UnknownAssignorError(name, f"cannot be made: {in_one_line(error)}") from error
    return assignor


def common_protocol(assignors: tuple[Assignor, ...]) -> RebalanceProtocol:
    """Return the protocol of a member with these assignors: cooperative only if all of them support it.

    Raises: UnknownAssignorError if there is no protocol that all support.
    """
    for protocol in (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER):
        if all(protocol in assignor.protocols for assignor in assignors):
            return protocol
    shown = ", ".join(f"{one.name} ({' or '.join(known.value for known in one.protocols)})" for one in assignors)
    raise UnknownAssignorError(assignors[0].name, f"no way to give partitions up is common to {shown}")


def _find(name: str) -> type[Assignor]:
    if name in STRATEGIES:
        return STRATEGIES[name].assignor
    if name in _BY_JAVA_CLASS:
        return _BY_JAVA_CLASS[name]
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise UnknownAssignorError(
            name, f"give one of {', '.join(STRATEGIES)}, or the import path of your own as package.module:Class"
        )
    try:
        found: object = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:
        raise UnknownAssignorError(name, f"cannot be imported: {in_one_line(error)}") from error
    if not (isinstance(found, type) and issubclass(found, Assignor)):
        raise UnknownAssignorError(name, f"{attribute} is no class derived from rebalance.assignors.seam.Assignor")
    known_as: object = getattr(found, "name", None)
    if not (isinstance(known_as, str) and known_as.isprintable() and 0 < len(known_as) <= _LONGEST_NAME):
        what = f"{attribute} has no name of 1 to {_LONGEST_NAME} printable characters, by which members agree on it"
        raise UnknownAssignorError(name, what)
    protocols: object = found.protocols
    if not (isinstance(protocols, (tuple, list)) and all(isinstance(one, RebalanceProtocol) for one in protocols)):
        raise UnknownAssignorError(name, f"the protocols of {attribute} must be a tuple of RebalanceProtocols")
    return found


def _value_of(name: str, known: AssignorProperty, properties: Mapping[str, str]) -> PropertyValue:
    text = properties.get(known.name)
    if text is None:
        return known.default
    if isinstance(known.default, bool):
        if (flag := true_or_false(text)) is None:
            raise UnknownAssignorError(name, f"{known.name} must be true or false, not {text!r}")
        return flag
    if isinstance(known.default, int):
        number = whole_number(text)
        if number is None or not known.minimum <= number <= known.maximum:
            raise UnknownAssignorError(
                name, f"{known.name} must be an integer from {known.minimum} to {known.maximum}, not {text!r}"
            )
        return number
    return text
