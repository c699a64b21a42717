"""The retries of requests to Kafka about a group's offsets.

By the origin of a commit (offsets.commit.max.retries, offsets.channel.backoff.ms):

auto commit           once: the next interval is the next try, and the coordinator's thread must not wait
rebalance, shutdown   again until the tries are used up or drain.timeout.ms is over: other members wait meanwhile
commit_offsets()      again until the tries are used up, or shutdown() is called

The JVM does nearly the reverse. 0.8.2 tries once, except at shutdown. From 0.9 on its flag is inverted: the timer and
commitOffsets(false) try again, while a rebalance, a shutdown and commitOffsets(true) do not.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenacity import (
    Retrying,
    retry_if_exception,
    sleep_using_event,
    stop_after_attempt,
    stop_before_delay,
    stop_when_event_set,
    wait_fixed,
)

from legacy_consumer.errors import OffsetError
from zk_layout.errors import LegacyConsumerError
from zk_layout.signals import Flag


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """Settings of the retries: the tries after the first one, and the wait between two."""

    max_retries: int = 5
    backoff_s: float = 1.0


def explicit_commit(settings: RetrySettings, closing: Flag) -> Retrying:
    """Return the policy for commit_offsets(): the user's code waits for it."""
    return Retrying(
        # tenacity uses only is_set and wait of an Event, and a Flag has both
        stop=stop_after_attempt(1 + settings.max_retries) | stop_when_event_set(closing),  # type: ignore[arg-type]
        wait=wait_fixed(settings.backoff_s),
        retry=retry_if_exception(_is_retriable_in_kafka),
        sleep=sleep_using_event(closing),  # type: ignore[arg-type]
        reraise=True,
    )


def last_commit(settings: RetrySettings, within_s: float) -> Retrying:
    """Return the policy for the commit before a release, after which this member can commit these no more."""
    return Retrying(
        stop=stop_after_attempt(1 + settings.max_retries) | stop_before_delay(within_s),
        wait=wait_fixed(settings.backoff_s),
        retry=retry_if_exception(_is_retriable_in_kafka),
        reraise=True,
    )


def coordinator_answer(backoff_s: float, within_s: float) -> Retrying:
    """Return the policy for a read: a coordinator that has just moved, or is loading offsets, refuses at once."""
    return Retrying(
        stop=stop_before_delay(within_s),
        wait=wait_fixed(backoff_s),
        retry=retry_if_exception(_is_retriable),
        reraise=True,
    )


def _is_retriable(error: BaseException) -> bool:
    return isinstance(error, LegacyConsumerError) and error.retriable


def _is_retriable_in_kafka(error: BaseException) -> bool:
    # errors of ZooKeeper are not retried here: the caller decides about them
    return isinstance(error, OffsetError) and error.retriable
