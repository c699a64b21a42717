# ruff: noqa: SLF001 - the codes of librdkafka's own errors begin with an underscore
"""A consumer of librdkafka that reads offsets from a group's coordinator, and commits to it."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

import confluent_kafka
from confluent_kafka import KafkaException

from legacy_consumer.errors import BrokersUnavailableError, GroupRefusedError
from legacy_consumer.fetching.librdkafka.client import Callbacks, Client, Settings, open_handle
from zk_layout.model import TopicPartition

_Code = confluent_kafka.KafkaError

_SLICE_S = 1.0
"""A refusal comes beside the awaited answer, so the handle waits in slices and checks for one in between."""


class OffsetsHandle(Client):
    """One librdkafka consumer that only uses a group's coordinator. Only one thread at a time may use it.

    librdkafka queues a commit until it knows a coordinator, at most for session.timeout.ms, and closing waits for it.
    So read first, and abandon a handle whose commit had no answer.
    Raises: ConfigError for a setting that librdkafka does not accept.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._group = str(settings["group.id"])
        self._answers: list[str | None] = []
        callbacks: Callbacks = {"error_cb": self.on_error, "on_commit": self._on_commit}
        self._consumer = open_handle(confluent_kafka.Consumer, settings, callbacks)

    def committed(
        self, partitions: Collection[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, tuple[int | None, str]]:
        """Return (offset, metadata) of each partition that we may read. offset: None = there is none.

        Raises: BrokersUnavailableError if the coordinator does not answer, or cannot; GroupRefusedError.
        """
        wanted = [confluent_kafka.TopicPartition(tp.topic, tp.partition) for tp in partitions]
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = deadline - time.monotonic()
            try:
                answered = self._consumer.committed(wanted, max(0.0, min(left_s, _SLICE_S)))
                break
            except KafkaException as error:
                if error.args[0].code() != _Code._TIMED_OUT or left_s <= _SLICE_S:
                    raise BrokersUnavailableError(self._reason(error.args[0], timeout_s)) from error
            finally:
                self._serve()
        found: dict[TopicPartition, tuple[int | None, str]] = {}
        for one in answered:
            # 0.8.2 answers UNKNOWN_TOPIC_OR_PART for a partition without an offset
            if one.error is not None and one.error.code() == _Code.TOPIC_AUTHORIZATION_FAILED:
                continue
            if one.error is not None and one.error.code() != _Code.UNKNOWN_TOPIC_OR_PART:
                raise BrokersUnavailableError(self._reason(one.error, timeout_s))
            offset = one.offset if one.error is None and one.offset >= 0 else None
            found[TopicPartition(one.topic, one.partition)] = (offset, one.metadata or "")
        return found

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, str]], timeout_s: float) -> str | None:
        """Commit {partition: (offset, metadata)}. Returns: None, or why some were refused.

        Raises: BrokersUnavailableError without an answer in time; the handle must then be abandoned.
        """
        deadline = time.monotonic() + timeout_s
        wanted = [
            confluent_kafka.TopicPartition(tp.topic, tp.partition, offset, metadata)
            for tp, (offset, metadata) in offsets.items()
        ]
        self._answers.clear()
        try:
            self._consumer.commit(offsets=wanted, asynchronous=True)
            while not self._answers:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise BrokersUnavailableError(f"no answer to a commit within {timeout_s:.1f} s")
                self._consumer.poll(min(left_s, 0.1))
        except KafkaException as error:
            raise BrokersUnavailableError(self._reason(error.args[0], timeout_s)) from error
        return self._answers.pop(0)

    def _serve(self) -> None:
        """Let librdkafka run its callbacks. Raises: GroupRefusedError if the coordinator refuses this client."""
        said = self._consumer.poll(0)
        error = None if said is None else said.error()
        if error is not None and error.code() == _Code.GROUP_AUTHORIZATION_FAILED:
            raise GroupRefusedError(self._group, error.str())

    def _on_commit(self, error: confluent_kafka.KafkaError | None, _: object) -> None:
        self._answers.append(None if error is None else error.str())

    def _reason(self, error: confluent_kafka.KafkaError, timeout_s: float) -> str:
        if error.code() == _Code._TIMED_OUT:
            return self.refusal or f"no group coordinator answered within {timeout_s:.1f} s"
        return self.refusal or error.str()

    def close(self) -> None:
        """Stop, and free the handle; it cannot be used again."""
        self._consumer.close()
