"""Random stories of streams on a real cluster, with many events in a short time; a seed draws topics and options.

They check the promises of tests/simulation/stream_world.py: the query commits nothing ahead of the sink, no row is lost
or comes twice, and a restarted query goes on.
"""

import random
from collections import Counter

from legacy_consumer.fetching.librdkafka import Record

ROWS = 12
"""About the number of rows that a partition gains at a time."""
POINTS = ("in a task", "running", "stopped", "in the sink", "killed")
"""The points of a story at which something can happen, in this order."""
STANDS = ("before the sink", "in the sink", "after the sink")
"""The places in a batch at which a driver is killed."""


class Story:
    def __init__(self, cluster, folder, seed):
        self._cluster = cluster
        self._random = random.Random(seed)
        self.name = f"story-{seed}"
        self.group = f"{self.name}-{folder.name}"
        self._folder = folder / self.name
        self._lives = Counter()
        self._ends = {}
        self._stands = STANDS[seed % len(STANDS)]
        self._events = [
            (self._random.choice(POINTS), self._add_partition),
            (self._random.choice(POINTS), self._add_topic),
            (self._random.choice(("stopped", "killed")), self._make_anew),
        ]
        self._add_topic()

    def happen(self, point):
        for when, event in self._events:
            if when == point:
                event()
        for topic, partition in self._ends:
            self._grow(topic, partition, self._random.randrange(ROWS // 2, ROWS))

    def told(self, stands=None, *, ends_by_itself=False):
        """Return what the application needs to start a query. stands: where it hangs in one of its first batches."""
        options = {
            "zookeeper.connect": self._cluster.kafka.zookeeper_connect,
            "whitelist": f"{self.group}-.*",
            "group.id": self.group,
            "maxOffsetsPerTrigger": str(max(1, len(self._missing(self._ends)) // 2)),
            "claimOwnership": self._random.choice(("true", "false")),
            "failOnDataLoss": "false",
            "fetcher": "librdkafka",  # librdkafka loads quickly
        }
        where = self._stands if stands == "in the sink" else stands
        in_batch = self._random.randrange(2)
        return {"options": options, "stands": where, "in_batch": in_batch, "ends_by_itself": ends_by_itself}

    def _add_topic(self):
        self._create(f"{self.group}-{len(self._lives)}")

    def _create(self, topic):
        self._cluster.kafka.create_topic(topic, 2)
        self._lives[topic] += 1
        for partition in range(2):
            self._ends[topic, partition] = 0
            self._grow(topic, partition, ROWS)

    def _add_partition(self):
        topic = self._random.choice(sorted(self._lives))
        partition = sum(name == topic for name, _ in self._ends)
        self._cluster.kafka.add_partitions(topic, partition + 1)
        self._ends[topic, partition] = 0

    def _make_anew(self):
        topic = self._random.choice(sorted(self._lives))
        self._cluster.kafka.delete_topic(topic)
        self._ends = {key: end for key, end in self._ends.items() if key[0] != topic}
        self._create(topic)

    def _grow(self, topic, partition, count):
        begin = self._ends[topic, partition]
        self._ends[topic, partition] += count
        rows = [f"{topic}:{self._lives[topic]}:{partition}:{begin + n}" for n in range(count)]
        self._cluster.produce(topic, [Record(None, row.encode(), partition) for row in rows])

    def in_sink(self):
        """Return how often the sink holds each row."""
        batches = [path.read_text() for path in self._folder.glob("out/[0-9]*")]
        return Counter(row for batch in batches for row in batch.splitlines())

    def _missing(self, bounds):
        """Return the rows up to these offsets that the sink lacks. Raises: AssertionError if it holds a row twice."""
        sink = self.in_sink()
        assert [row for row, times in sink.items() if times > 1] == []
        return [
            row
            for (topic, partition), end in bounds.items()
            for row in (f"{topic}:{self._lives[topic]}:{partition}:{n}" for n in range(end))
            if row not in sink
        ]

    def is_read(self):
        return self._missing(self._ends) == []

    def check(self):
        """Check that no row comes twice, and that all committed rows are in the sink."""
        assert self._missing(self.committed()) == []

    def check_all(self):
        """Check that in the end the stream has read and committed everything."""
        assert self._missing(self._ends) == []
        assert self.committed() == self._ends

    def committed(self):
        """Return the group's committed offsets in the present topics, none of earlier topics."""
        store = self._cluster.store
        found = {}
        for topic, partition in self._ends:
            path = f"/consumers/{self.group}/offsets/{topic}/{partition}"
            if store.exists(path) is not None:
                znode = store.get_data(path)
                if znode.stat.mzxid > store.exists(f"/brokers/topics/{topic}").czxid:
                    found[topic, partition] = int(znode.data)
        return found

    def has_left(self):
        return self._cluster.members(self.group) == ()
