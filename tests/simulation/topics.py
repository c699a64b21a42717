"""Topics of a simulated world that are deleted, and created again at once or later, while members read them.

The messages are gone, and the committed offsets mean nothing. A member that knows of the deletion reads the new topic
from its beginning; until then it may commit its old position for the new topic, and no member follows that offset.
"""

from __future__ import annotations

import random

from zk_layout.model import TopicPartition


class Topics:
    """Deletes and creates topics. Its generator is its own: the other choices of a seed do not depend on it."""

    def __init__(self, world, *, may_be):
        self._world = world
        self._rng = rng = random.Random(f"topics {world.seed}")
        self.come_and_go = rng.random() < 0.3 and may_be
        self.gone = set()

    def act(self):
        """Now and then delete a topic or create a deleted one."""
        if not self.come_and_go or self._rng.random() >= 0.02:
            return
        topic = self._rng.choice(sorted(self._world.partitions))
        if topic in self.gone:
            self._create(topic)
            return
        self._delete(topic)
        if self._rng.random() < 0.6:
            self._create(topic)

    def create_all(self):
        """Create all deleted topics, when the faults are over."""
        for topic in sorted(self.gone):
            self._create(topic)

    def _delete(self, topic):
        world = self._world
        self.gone.add(topic)
        world.admin.delete(f"/brokers/topics/{topic}")
        partitions = [TopicPartition(topic, number) for number in range(world.partitions[topic])]
        world.kafka.ends.update(dict.fromkeys(partitions, 0))
        world.record("topic deleted", topic)

    def _create(self, topic):
        world = self._world
        self.gone.discard(topic)
        world.write_topic(topic)
        world.record("topic created", topic)
        if self._rng.random() < 0.5:
            # as if a producer had waited for it
            for number in range(world.partitions[topic]):
                world.produce(TopicPartition(topic, number), self._rng.randint(1, 9))
