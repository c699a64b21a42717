"""The configuration of one member of a group."""

from __future__ import annotations

import re
import sys
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path

from legacy_consumer.config.cluster_config import ClusterConfig, check_name
from legacy_consumer.config.properties import BY_NAME
from legacy_consumer.config.sources import Value, Values, misspelling_of
from legacy_consumer.fetching.fetcher import EARLIEST, LATEST
from rebalance.assignors import ASSIGNORS
from rebalance.assignors.strategies import assignor_classes, common_protocol, make_assignors
from rebalance.errors import UnknownAssignorError
from zk_layout.errors import ConfigError

_STRATEGY = "partition.assignment.strategy"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ClusterConfig):
    """The checked properties of one member; load makes it.

    `ConsumerConfig.load("consumer.properties", group_id="billing")`. Attributes are Kafka's names with underscores;
    legacy_consumer.config.PROPERTIES describes each.
    """

    group_id: str
    consumer_id: str | None
    group_coordination: str
    partition_assignment_strategy: str
    partition_assignment_dialect: str
    group_mismatch: str
    rebalance_max_retries: int
    rebalance_backoff_ms: int
    zookeeper_sync_time_ms: int
    group_initial_rebalance_delay_ms: int
    scheduled_rebalance_max_delay_ms: int
    drain_timeout_ms: int
    audit_interval_ms: int
    exclude_internal_topics: bool
    auto_commit_enable: bool
    auto_commit_interval_ms: int
    auto_offset_reset: str
    offsets_storage: str
    offsets_by_hand: str | None
    dual_commit_enabled: bool
    offsets_commit_max_retries: int
    offsets_channel_backoff_ms: int
    offsets_channel_socket_timeout_ms: int
    delivery_rule: str
    commit_conflict: str
    consumer_timeout_ms: int
    fetch_message_max_bytes: int | None
    fetch_min_bytes: int
    fetch_wait_max_ms: int
    refresh_leader_backoff_ms: int
    isolation_level: str
    fetcher: str

    @property
    def reset_to(self) -> int | None:
        """auto.offset.reset as a position: EARLIEST, LATEST, or None if the user's code decides."""
        return {"smallest": EARLIEST, "largest": LATEST, "none": None}[self.auto_offset_reset]

    @property
    def topics_by_hand(self) -> frozenset[str]:
        """The topics of offsets.by.hand."""
        return frozenset(_topics(self.offsets_by_hand))

    @classmethod
    def _declared(cls, values: Values) -> Container[str]:
        if values.given.get("group.coordination", "classic") == "classic":
            return ()
        strategy = values.given.get(_STRATEGY, BY_NAME[_STRATEGY].default)
        try:
            return {known.name for assignor in assignor_classes(str(strategy)) for known in assignor.properties}
        except UnknownAssignorError as error:
            raise _unusable(strategy, error) from error

    @classmethod
    def _complete(cls, values: Values) -> dict[str, Value | None]:
        # the decorator of a slots dataclass returns a new class, so super() without arguments would use the wrong one
        complete = super(ConsumerConfig, cls)._complete(values)
        group = complete["group.id"]
        if not group:
            reason = f"is required: members of one name share the partitions, such as group.id={_proposed_group()}"
            raise ConfigError("group.id", None, reason + misspelling_of("group.id", values))
        if group in {".", ".."}:
            raise ConfigError("group.id", group, "is no name that ZooKeeper takes for a znode")
        consumer = complete["consumer.id"]
        if consumer is not None and not _is_part_of_a_name(str(consumer)):
            reason = "must not be empty nor hold /, control characters or emojis, which ZooKeeper takes in no name"
            raise ConfigError("consumer.id", consumer, reason)
        by_hand = complete["offsets.by.hand"]
        for topic in _topics(by_hand if isinstance(by_hand, str) else None):
            check_name("offsets.by.hand", topic)
            if topic in {"", ".", ".."}:
                raise ConfigError("offsets.by.hand", by_hand, f"{topic!r} is no topic: give names with commas between")
        complete[_STRATEGY] = _checked_strategy(complete, values.assignment)
        if complete["rebalance.backoff.ms"] is None:
            complete["rebalance.backoff.ms"] = complete["zookeeper.sync.time.ms"]
        if complete["dual.commit.enabled"] is None:
            complete["dual.commit.enabled"] = complete["offsets.storage"] == "kafka"
        return complete

    @classmethod
    def _contradictions(cls, complete: Mapping[str, Value | None]) -> list[str]:
        warnings = super(ConsumerConfig, cls)._contradictions(complete)
        fetch_wait_ms = _number(complete, "fetch.wait.max.ms")
        if _number(complete, "socket.timeout.ms") < fetch_wait_ms:
            raise ConfigError(
                "socket.timeout.ms",
                complete["socket.timeout.ms"],
                f"must be at least fetch.wait.max.ms={fetch_wait_ms}, or every idle fetch would time out",
            )
        session_ms = _number(complete, "zookeeper.session.timeout.ms")
        tries, backoff_ms = (
            _number(complete, "rebalance.max.retries"),
            _number(complete, "rebalance.backoff.ms"),
        )
        if tries * backoff_ms < session_ms:
            warnings.append(
                f"rebalance.max.retries={tries} x rebalance.backoff.ms={backoff_ms} is below "
                f"zookeeper.session.timeout.ms={session_ms}: a rebalance gives up before the partitions of a crashed "
                "member are free; raise rebalance.max.retries"
            )
        drain_ms = _number(complete, "drain.timeout.ms")
        if drain_ms >= max(tries * backoff_ms, 1):
            warnings.append(
                f"drain.timeout.ms={drain_ms} is not below rebalance.max.retries={tries} x "
                f"rebalance.backoff.ms={backoff_ms}: members with the same settings give up while this one drains"
            )
        if complete["group.coordination"] == "leader" and complete["scheduled.rebalance.max.delay.ms"]:
            warnings.append("scheduled.rebalance.max.delay.ms has no effect while group.coordination is leader")
        if complete["dual.commit.enabled"] and complete["offsets.storage"] == "zookeeper":
            warnings.append("dual.commit.enabled has no effect while offsets.storage is zookeeper")
        return warnings


def _topics(names: str | None) -> list[str]:
    return [] if names is None else [name.strip() for name in names.split(",")]


def _number(complete: Mapping[str, Value | None], name: str) -> int:
    value = complete[name]
    assert isinstance(value, int)
    return value


def _proposed_group() -> str:
    """Return a valid group name made from the program's name."""
    program = Path(sys.argv[0]).stem if sys.argv else ""
    return re.sub(r"[^a-zA-Z0-9._-]+", "-", program).strip("-._") or "group1"


def _checked_strategy(complete: Mapping[str, Value | None], assignment: Mapping[str, str]) -> str:
    """Check the strategy. Raises: ConfigError for a strategy that no member can use."""
    strategy = str(complete[_STRATEGY]).strip()
    if complete["group.coordination"] == "classic":
        if strategy.lower() not in ASSIGNORS:
            more = " (others need group.coordination=leader)"
            raise ConfigError(_STRATEGY, strategy, f"must be {' or '.join(ASSIGNORS)}{more}")
        return strategy.lower()
    try:
        common_protocol(make_assignors(strategy, assignment))
    except UnknownAssignorError as error:
        raise _unusable(strategy, error) from error
    return strategy


def _unusable(strategy: Value | None, error: UnknownAssignorError) -> ConfigError:
    return ConfigError(_STRATEGY, strategy, f"cannot be used: {error}")


def _is_part_of_a_name(text: str) -> bool:
    """Return whether ZooKeeper accepts this text in a znode's name (its PathUtils: no character from U+FFF0 on)."""
    return bool(text) and text.isprintable() and "/" not in text and max(text) < "\ufff0"
