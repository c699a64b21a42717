"""Checks before a member joins: whether the group and its offsets are suitable.

The checks write nothing. A member refuses a group with another strategy before it disturbs any other member.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.errors import GroupOffsetsUnavailableError
from legacy_consumer.offsets import OffsetStore
from rebalance.assignors import ASSIGNORS, Dialect
from rebalance.assignors.strategies import DEFAULT_STRATEGY
from rebalance.clock import Clock
from rebalance.errors import StrategyMismatchError
from rebalance.group_strategy import ClassicStrategy, find_mismatch, telling_partitions, tells_of_no_other
from rebalance.reader import GroupReader, read_owners
from rebalance.subscription import subscribed_topics
from zk_layout.errors import NoNodeError
from zk_layout.loggers import safe_logger
from zk_layout.model import ConsumerRegistration, TopicPartition
from zk_layout.paths import OwnersPath, TopicOwnersPath, TopicsPath
from zk_layout.signals import Flag
from zk_layout.store import ZkStore

logger = safe_logger(__name__)


class JoiningChecks:
    """The checks of one member. check_open raises if the member is being closed meanwhile."""

    def __init__(
        self,
        config: ConsumerConfig,
        consumer_id: str,
        store: ZkStore,
        offsets: OffsetStore,
        clock: Clock,
        check_open: Callable[[], None],
    ) -> None:
        self._config = config
        self._consumer_id = consumer_id
        self._store = store
        self._offsets = offsets
        self._clock = clock
        self._check_open = check_open

    def check_strategy(self) -> None:
        """Refuse, before anything is written, a group whose owners show another strategy than this member's.

        During a rebalance the owners can show any strategy, so the member reads them again until it would be over.
        Raises: StrategyMismatchError.
        """
        tries = 0 if self._config.group_mismatch == "warn" else self._config.rebalance_max_retries
        for left in range(tries, -1, -1):
            self._check_open()
            mismatch = self.mismatch()
            if mismatch is None:
                return
            if left:
                logger.info("%s: looks again, %d times at most: %s", self._consumer_id, left, mismatch)
                self._clock.wait(Flag(), self._config.rebalance_backoff_ms / 1000)
            else:
                self.judge(mismatch)

    def check_offsets(self, registration: ConsumerRegistration) -> None:
        """Check, before anything is written, that Kafka returns the group's offsets, with offsets.storage=kafka.

        The member asks rebalance.max.retries times: a coordinator that has just started is not ready for a moment.
        Raises: GroupOffsetsUnavailableError, MissingListenerError.
        """
        config = self._config
        if config.offsets_storage == "zookeeper":
            return
        there = self._store.get_children(TopicsPath().path) if self._store.exists(TopicsPath().path) else ()
        topics = subscribed_topics(registration, there, exclude_internal_topics=config.exclude_internal_topics)
        some = [TopicPartition(topic, 0) for topic in sorted(topics.keys() & set(there))[:1]]
        for left in range(config.rebalance_max_retries, -1, -1):
            self._check_open()
            try:
                self._offsets.read(some)
            except GroupOffsetsUnavailableError as error:
                if not left:
                    raise
                logger.info("%s: asks again, %d times at most: %s", self._consumer_id, left, error)
                self._clock.wait(Flag(), config.rebalance_backoff_ms / 1000)
            else:
                return

    def mismatch(self) -> StrategyMismatchError | None:
        """Return how the group's present strategy differs from this member's; None if no difference shows."""
        config = self._config
        strategy = classic_strategy(config)
        if not self._is_anything_owned():
            # the group starts: no owner znode shows a strategy yet
            return None
        group = GroupReader(
            self._store, config.group_id, exclude_internal_topics=config.exclude_internal_topics, on_change=None
        ).read()
        others = [told for name, told in group.members.items() if name != self._consumer_id]
        if not others:
            return None
        if all(told.coordination == "leader" for told in others):
            if config.group_coordination == "leader":
                return None
            return StrategyMismatchError(config.group_id, str(strategy), ("a leader",), "group.coordination=leader")
        telling = telling_partitions(group, strategy, without=self._consumer_id)
        if telling is not None:
            few = read_owners(self._store, group, [tp for tp, _ in telling])
            if tells_of_no_other(telling, few):
                return None
        return find_mismatch(group, read_owners(self._store, group), strategy, without=self._consumer_id)

    def judge(self, mismatch: StrategyMismatchError) -> None:
        """Refuse a mismatch, or log it with group.mismatch=warn. Raises: StrategyMismatchError."""
        if self._config.group_mismatch == "fail":
            raise mismatch
        logger.warning("%s: %s", self._consumer_id, mismatch)

    def _is_anything_owned(self) -> bool:
        group = self._config.group_id
        try:
            topics = self._store.get_children(OwnersPath(group).path)
        except NoNodeError:
            return False
        folders = self._store.exists_many([TopicOwnersPath(group, topic).path for topic in topics])
        return any(folder is not None and folder.num_children for folder in folders)


def classic_strategy(config: ConsumerConfig) -> ClassicStrategy:
    """Return the strategy for a group without a leader, and for a led one with members that follow no leader."""
    names = (name.strip().lower() for name in config.partition_assignment_strategy.split(","))
    known = next((name for name in names if name in ASSIGNORS), DEFAULT_STRATEGY)
    return ClassicStrategy.of(known, cast(Dialect, config.partition_assignment_dialect))
