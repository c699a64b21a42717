"""When a handle of librdkafka is replaced by another one."""

from unittest.mock import Mock

from legacy_consumer.fetching.librdkafka import LibrdkafkaFetcher
from zk_layout.model import TopicPartition

OTHER = TopicPartition("t", 0)


class Handle:
    """A handle of librdkafka that was told that no broker can be reached, and gets nothing any more."""

    bootstrap_servers = "h:1"
    has_forgotten = False

    def __init__(self, made):
        made.append(self)
        self.brokers_down = len(made) == 1
        self.positions = {}
        self.is_closed = False

    def assign(self, positions):
        self.positions.update(positions)

    def unassign(self, partitions):
        for tp in partitions:
            self.positions.pop(tp, None)

    def resume_positions(self):
        return self.positions

    def consume(self, _most, _timeout_s):
        return []

    def passed(self):
        return {}

    def lasting_failure(self):
        return None

    def close(self):
        self.is_closed = True


def test_librdkafka_is_begun_again_once_if_nothing_comes_after_no_broker_could_be_reached(monkeypatch):
    """After a power cut of all brokers it once stood still for ever, at the same brokers, without a word."""
    monkeypatch.setattr("legacy_consumer.fetching.librdkafka.fetcher._LOOK_S", 0.0)
    made = []
    finder = Mock(is_busy=False)
    fetcher = LibrdkafkaFetcher(lambda: Handle(made), finder, backoff_s=1.0)
    fetcher.assign({OTHER: 5})
    for _ in range(10):
        assert fetcher.poll(100, 0.0) is None
    first, looked, again = made
    assert (first.is_closed, looked.is_closed, again.is_closed) == (True, True, False)
    assert again.positions == {OTHER: 5}
    fetcher.close()
