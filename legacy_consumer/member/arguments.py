"""Checks the arguments of a connector's calls before use; each error is one clear line.

The checks convert no value by a guess: 3.7 is no offset, True is no number of streams, "0" is no partition.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Collection, Mapping
from typing import SupportsIndex, cast

from legacy_consumer.config import ClusterConfig, ConsumerConfig
from legacy_consumer.errors import OffsetError
from legacy_consumer.fetching.fetcher import EARLIEST
from legacy_consumer.member.listener import HOOKS, HOOKS_OF_JAVA, LOSSES, STARTS, has_hooks
from legacy_consumer.offsets.topic_partitions import is_topic_name
from rebalance.subscription import TopicFilter
from zk_layout.codecs import MOST_STREAMS, MOST_STREAMS_IN_ALL
from zk_layout.errors import ConfigError
from zk_layout.model import TopicPartition

_LARGEST_OFFSET = 2**63 - 1
_LARGEST_PARTITION = 2**31 - 1
_LONGEST_S = 1e6
"""The longest possible wait, used for an infinite one: eleven days."""


def check_config(config: object, kind: type[ClusterConfig] = ConsumerConfig) -> None:
    """Check that the value is a configuration of that class. Raises: TypeError."""
    if config is not None and not isinstance(config, kind):
        name = kind.__name__
        what = f"{name}.load(path) reads a file, and {name}.load(None, {{...}}) takes properties"
        raise TypeError(f"config must be a {name}, not {type(config).__name__}: {what}")


def check_topic_counts(topic_counts: object) -> None:
    """Check that the value is {topic: number of streams}. Raises: ConfigError."""
    if not isinstance(topic_counts, Mapping):
        raise ConfigError("topic_counts", topic_counts, "must be {topic: number of streams}")
    for topic, count in topic_counts.items():
        check_topic(topic)
        check_count(count, f"streams of topic {topic}")
    if sum(topic_counts.values()) > MOST_STREAMS_IN_ALL:
        raise ConfigError("topic_counts", sum(topic_counts.values()), f"must be at most {MOST_STREAMS_IN_ALL} streams")


def check_topic(topic: object) -> None:
    """Check the name of a topic. Raises: ConfigError."""
    if not (isinstance(topic, str) and is_topic_name(topic)):
        raise ConfigError("topic", repr(topic), "is no name of a topic: letters, digits, '.', '_' and '-'")


def check_count(count: object, what: str) -> None:
    """Check a number of streams. Raises: ConfigError."""
    if not isinstance(count, int) or isinstance(count, bool):
        raise ConfigError(what, repr(count), "must be a whole number, of type int")
    if not 1 <= count <= MOST_STREAMS:
        raise ConfigError(what, count, f"must be at least 1 and at most {MOST_STREAMS}")


def _whole(number: object) -> int | None:
    """Return the value as an int if it is a whole number, also one of numpy; else None."""
    if type(number) is int:
        return number
    if isinstance(number, bool):
        return None
    try:
        return operator.index(cast(SupportsIndex, number))
    except TypeError:
        return None


def checked_number(number: object, what: str, least: int = 1) -> int:
    """Return a whole number that the user's code gave. Raises: TypeError, ValueError."""
    count = _whole(number)
    if count is None:
        msg = f"{what} must be a whole number, not {number!r}"
        raise TypeError(msg)
    if not least <= count <= _LARGEST_OFFSET:
        msg = f"{what} must be at least {least} and fit into 64 bits, not {count}"
        raise ValueError(msg)
    return count


def checked_seconds(timeout: object) -> float:
    """Return the seconds of a wait from the user's code, at most _LONGEST_S. Raises: TypeError, ValueError."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        msg = f"timeout must be a number of seconds, of type int or float, not {timeout!r}"
        raise TypeError(msg)
    if not timeout >= 0:
        # also refuses NaN
        msg = f"timeout must be 0 s or more, not {timeout}"
        raise ValueError(msg)
    return float(min(timeout, _LONGEST_S))


def check_filter(topic_filter: object) -> None:
    """Check a topic filter. Raises: ConfigError."""
    if not isinstance(topic_filter, TopicFilter):
        raise ConfigError("topic_filter", repr(topic_filter), "must be a Whitelist or a Blacklist")


def check_function(function: object, what: str) -> None:
    """Check that the value can be called. Raises: TypeError."""
    if not callable(function):
        msg = f"{what} must be a function, not {function!r}"
        raise TypeError(msg)
    if inspect.iscoroutinefunction(function):
        msg = f"{what} must be a plain function: no event loop would run the async {function!r}"
        raise TypeError(msg)


def check_flag(flag: object, what: str) -> None:
    """Check that the value is True or False. Raises: TypeError."""
    if not isinstance(flag, bool):
        msg = f"{what} must be True or False, not {flag!r}"
        raise TypeError(msg)


def check_listener(listener: object) -> None:
    """Check that the listener has the hooks. Raises: ConfigError."""
    if listener is None:
        return
    if not has_hooks(listener, *HOOKS_OF_JAVA):
        for hook in HOOKS:
            if not has_hooks(listener, hook):
                raise ConfigError("listener", repr(listener), f"has no method {hook}")
    for hook in (LOSSES, STARTS):
        if hasattr(listener, hook) and not has_hooks(listener, hook):
            raise ConfigError("listener", repr(listener), f"{hook} is no method")
    for hook in (*HOOKS, *HOOKS_OF_JAVA, LOSSES, STARTS):
        if inspect.iscoroutinefunction(getattr(listener, hook, None)):
            raise ConfigError("listener", repr(listener), f"{hook} is async, and no event loop would run it")


def checked_offsets(offsets: object) -> dict[TopicPartition, int]:
    """Return {TopicPartition: next offset to read}. Raises: OffsetError for anything else."""
    if not isinstance(offsets, Mapping):
        msg = f"offsets must be {{TopicPartition: next offset to read}}, not {type(offsets).__name__}"
        raise OffsetError(msg)
    checked: dict[TopicPartition, int] = {}
    for tp, offset in offsets.items():
        check_partition(tp)
        number = _whole(offset)
        if number is None or not 0 <= number <= _LARGEST_OFFSET:
            msg = f"{tp}: {offset!r} is no offset to commit: give the next one to read, a whole number from 0 on"
            raise OffsetError(msg)
        checked[tp] = number
    return checked


def checked_offset(tp: TopicPartition, offset: object) -> int:
    """Return an offset to read from; a negative one lies outside every log. Raises: OffsetError for other values."""
    number = _whole(offset)
    if number is None or number > _LARGEST_OFFSET:
        msg = f"{tp}: {offset!r} is no offset: give a whole number of 64 bits"
        raise OffsetError(msg)
    return number


def checked_fetches(offsets: object) -> dict[TopicPartition, int]:
    """Return {TopicPartition: offset to read from}. Raises: OffsetError for anything else."""
    if not isinstance(offsets, Mapping):
        msg = f"offsets must be {{TopicPartition: offset to read from}}, not {type(offsets).__name__}"
        raise OffsetError(msg)
    for tp in offsets:
        check_partition(tp)
    return {tp: checked_offset(tp, offset) for tp, offset in offsets.items()}


def check_message(message: object) -> None:
    """Check that the value is a message. Raises: TypeError."""
    if not all(callable(getattr(message, name, None)) for name in ("topic", "partition", "offset")):
        msg = f"give a message as the stream handed it out, one at a time, not {message!r:.100}"
        raise TypeError(msg)


def position_of(offset: object) -> int | None:
    """Return where a partition can be read from: an offset, EARLIEST or LATEST; None for anything else."""
    number = _whole(offset)
    return number if number is not None and EARLIEST <= number <= _LARGEST_OFFSET else None


def checked_starts(
    answer: object, partitions: Collection[TopicPartition], by_hand: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, str]]:
    """Check a listener's answer: return the start positions, and why each of the other partitions has none.

    A partition without an answer has no reason, unless it is among by_hand. If a key of the answer is no partition, no
    partition gets a start: the listener may have meant one of them.
    """
    if not isinstance(answer, Mapping):
        why = f"the listener's starting_offsets must return {{TopicPartition: offset}}, not {answer!r:.100}"
        return {}, dict.fromkeys(partitions, why)
    # only the keys of a dict are listed: another mapping may be a table that is too large for that
    strange = [key for key in answer if not _names_a_partition(key)] if isinstance(answer, dict) else ()
    if strange:
        why = f"the listener's starting_offsets names {strange[0]!r:.100}, which is no TopicPartition"
        return {}, dict.fromkeys(partitions, why)
    given = {tp: offset for tp in partitions if (offset := answer.get(tp)) is not None}
    positions = {tp: position for tp, offset in given.items() if (position := position_of(offset)) is not None}
    wrong = {
        tp: f"the listener's starting_offsets says {given[tp]!r:.100}, which is no offset"
        for tp in given.keys() - positions.keys()
    }
    unsaid = [tp for tp in by_hand if tp not in given]
    wrong.update(dict.fromkeys(unsaid, "the listener's starting_offsets does not say, and offsets.by.hand names it"))
    return positions, wrong


def _names_a_partition(key: object) -> bool:
    """Return whether a TopicPartition finds this key in a dict; it never finds confluent_kafka's TopicPartition."""
    return isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str) and _whole(key[1]) is not None


def checked_position(tp: object, offset: object) -> int:
    """Return the position to read a partition from. Raises: OffsetError for an invalid partition or position."""
    check_partition(tp)
    position = position_of(offset)
    if position is None:
        msg = f"{tp}: {offset!r} is no offset to seek: give a whole number from 0 on, EARLIEST or LATEST"
        raise OffsetError(msg)
    return position


def check_partitions(partitions: object) -> None:
    """Check that the value is a collection of partitions. Raises: OffsetError."""
    if isinstance(partitions, TopicPartition | str | bytes) or not isinstance(partitions, Collection):
        msg = f"partitions must be a list of TopicPartition, not {partitions!r}"
        raise OffsetError(msg)
    for tp in partitions:
        check_partition(tp)


def check_partition(tp: object) -> None:
    """Check a partition. Raises: OffsetError."""
    if isinstance(tp, TopicPartition):
        topic, number = _parts(tp)
        if not (isinstance(topic, str) and is_topic_name(topic)):
            number = None
        if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= _LARGEST_PARTITION:
            return
    msg = f"{tp!r} is no partition: give legacy_consumer.TopicPartition('orders', 0), made of a str and an int"
    raise OffsetError(msg)


def _parts(tp: tuple[object, ...]) -> tuple[object, ...]:
    return tp
