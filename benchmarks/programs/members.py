"""One or more members of a group in this process, which join and leave by commands on standard input.

members.py ZOOKEEPER TOPIC PARTITIONS FIRST [SIDE]. It takes the same commands and prints the same answers as
java/Members.java, which explains them.
"""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from legacy_consumer import ConsumerConnector, KafkaStream, LegacyConsumerError, TopicPartition

_SETTINGS: dict[str, dict[str, Any]] = {
    "ours": {},
    "led": {"group_coordination": "leader"},
    "cooperative": {"group_coordination": "leader", "partition_assignment_strategy": "cooperative-sticky"},
    "librdkafka": {"fetcher": "librdkafka"},
}


class Members:
    """The members of this process that are in the group, in the order in which they joined.

    first: the number of the first; it is in its consumer id.
    """

    def __init__(self, zookeeper: str, topic: str, partitions: int, first: int, side: str) -> None:
        self._zookeeper = zookeeper
        self._topic = topic
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]
        self._first = first
        self._settings = _SETTINGS[side]
        self._group = ""
        self._members: list[ConsumerConnector] = []
        self._next_offset = 1
        self._threads = ThreadPoolExecutor(max_workers=128)

    def obey(self, verb: str, argument: str) -> str:
        """Carry out a command. Returns: the answer."""
        match verb:
            case "group":
                self._group = argument
            case "join":
                ids = [f"m-{self._first + len(self._members) + number:03}" for number in range(int(argument))]
                self._members += self._threads.map(self._new_member, ids)
            case "leave":
                going = [self._members.pop() for _ in range(int(argument))]
                list(self._threads.map(ConsumerConnector.shutdown, going))
            case "commit":
                return str(self._commit(int(argument)))
            case _:
                raise ValueError(verb)
        return ""

    def _new_member(self, consumer_id: str) -> ConsumerConnector:
        connector = ConsumerConnector(
            zookeeper_connect=self._zookeeper,
            group_id=self._group,
            consumer_id=consumer_id,
            auto_offset_reset="smallest",
            **self._settings,
        )
        (stream,) = connector.create_message_streams({self._topic: 1})[self._topic]
        threading.Thread(target=_read, args=(stream,), daemon=True).start()
        return connector

    def _commit(self, times: int) -> float:
        seconds = 0.0
        for _ in range(times):
            offsets = dict.fromkeys(self._partitions, self._next_offset)
            self._next_offset += 1
            began = time.perf_counter()
            result = self._members[0].commit_offsets(offsets)
            seconds += time.perf_counter() - began
            if len(result.committed) != len(offsets):
                raise ValueError(f"{len(result.committed)} of {len(offsets)} offsets were committed")
        return seconds

    def leave_all(self) -> None:
        """Let all members leave."""
        self.obey("leave", str(len(self._members)))


def _read(stream: KafkaStream) -> None:
    for _ in stream.batches():
        pass


def main() -> None:
    """Carry out commands until standard input ends."""
    zookeeper, topic, partitions, first, *side = sys.argv[1:]
    members = Members(zookeeper, topic, int(partitions), int(first), *side or ["ours"])
    print("ok", flush=True)
    for line in sys.stdin:
        try:
            print("ok", members.obey(*line.split()), flush=True)
        except (LegacyConsumerError, ValueError) as error:
            print("error", type(error).__name__, error, flush=True)
    members.leave_all()


if __name__ == "__main__":
    main()
