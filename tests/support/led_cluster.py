"""Led groups of whole connectors, in memory."""

from legacy_consumer import LedState, Phase
from rebalance.led.records import NO_GENERATION, decode_generation, generation_path, leader_path
from tests.support.member_cluster import MemberCluster
from tests.support.waiting import eventually
from zk_layout.codecs import encode_topic
from zk_layout.model import TopicAssignment, TopicPartition

TPS = [TopicPartition("t", n) for n in range(6)]


class LedCluster(MemberCluster):
    """A cluster with a topic of six partitions, twenty messages each, and members of a led group."""

    def __init__(self, **defaults):
        settings = {"group_coordination": "leader", "drain_timeout_ms": 5000, "rebalance_backoff_ms": 20}
        super().__init__({"t": 6}, **{**settings, **defaults})
        self.produce(20, *TPS)

    def widen(self, partitions):
        """Give the topic this number of partitions."""
        self.admin.set_data("/brokers/topics/t", encode_topic(TopicAssignment(dict.fromkeys(range(partitions), (0,)))))

    def generation(self):
        path = generation_path("g")
        return decode_generation(path, self.admin.get_data(path).data) if self.admin.exists(path) else NO_GENERATION

    def leader(self):
        return self.admin.get_data(leader_path("g")).data.decode()

    def leads(self, connector):
        return self.admin.exists(leader_path("g")) is not None and self.leader() == connector.consumer_id

    def has_heard(self, leader, *names):
        """Return whether the leader has read the offers of the members of these names."""
        leadership = leader._membership._led._election._leadership
        return {f"g_{name}" for name in names} <= {one.consumer_id for one in leadership._joined.copy().values()}

    def await_shares(self, sizes, *connectors):
        """Wait until all connectors are stable and own these numbers of partitions; check that none is owned twice."""

        def is_there():
            standings = {(led.state, led.generation) for led in (one.status.led for one in connectors)}
            return (
                [len(connector.status.owned) for connector in connectors] == sizes
                and all(connector.status.phase is Phase.STABLE for connector in connectors)
                and standings == {(LedState.MEMBER, self.generation().number)}
                and len(self.generation().shares) == len(connectors)
                and self.admin.exists(leader_path("g")) is not None
            )

        eventually(is_there)
        owned = [tp for connector in connectors for tp in connector.status.owned]
        assert len(owned) == len(set(owned)) == sum(sizes)


def numbers(connector):
    """Return the numbers of the partitions that the connector owns."""
    return sorted(tp.partition for tp in connector.status.owned)
