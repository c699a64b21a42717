"""Every public call of a connector with every wrong value, before it joins, while it consumes and after its shutdown.

Each call raises one clear error and writes no znode, and the connector does its work afterwards.
"""

import copy
import math
import pickle
from fractions import Fraction

import pytest
from confluent_kafka import TopicPartition as ConfluentPartition

from legacy_consumer import ClusterConfig, ConsumerConfig, ConsumerConnector, KafkaStream, SimpleConsumer, Whitelist
from legacy_consumer.errors import (
    ConsumerClosedError,
    MessageStreamsExistError,
    NoSuchPartitionError,
    NoSuchTopicError,
    NotAssignedError,
    NotJoinedError,
    OffsetError,
    OffsetOutOfRangeError,
)
from tests.support.fake_kafka import FakeFetchers, FakeKafka
from zk_layout.codecs import encode_topic
from zk_layout.errors import ConfigError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment, TopicPartition

P0 = TopicPartition("t", 0)
NO_COUNTS = [True, False, 0, -1, 2.5, "1", None, math.inf, [1]]
NO_STREAMS = [*NO_COUNTS, 10_001, 10**30]
NO_OFFSETS = [-1, -(10**30), 2**63, 3.7, 2.0, math.nan, "5", b"5", None, True, [5]]
NO_POSITIONS = [-3, -(10**30), 2**63, 3.7, 2.0, math.nan, "5", b"5", None, True, [5]]
NO_LISTS = ["t", b"t", P0, 7, None, P0.partition, iter([P0])]
NO_TOPICS = ["", ".", "..", "a/b", "/", "ü", "a b", "a\n", "a\0", 7, None, b"t"]
NO_TIMES = [
    *((value, TypeError) for value in (None, "1", b"", True, [], 1j)),
    *((value, ValueError) for value in (-1, -0.5, math.nan, -math.inf)),
]
NO_PARTITIONS = [-1, 2**31, None, "0", 1.0, True]


class Listener:
    def before_releasing_partitions(self, partitions):
        pass


class World:
    def __init__(self):
        self.zookeeper = MemoryZooKeeper()
        self.admin = MemoryStore(self.zookeeper)
        self.admin.start()
        self.admin.create("/brokers/topics/t", encode_topic(TopicAssignment({0: (0,)})), make_parents=True)
        self.kafka = FakeKafka()
        self.kafka.produce(P0, 3)

    def connector(self, **properties):
        properties = {"auto_offset_reset": "smallest", "consumer_timeout_ms": 20_000, **properties}
        return ConsumerConnector(
            store=MemoryStore(self.zookeeper),
            fetchers=FakeFetchers(self.kafka),
            zookeeper_connect="memory",
            group_id="g",
            **properties,
        )

    def znodes(self):
        return self.zookeeper.tree.zxid


class Wrong(Listener):
    """A listener with both hooks, and with a starting_offsets that is no method."""

    starting_offsets = "no method"

    def before_starting_fetchers(self, partitions, assignment):
        pass


class WrongInJavasWords:
    """A listener with the hooks of Java's, and with an on_partitions_lost that is no method."""

    on_partitions_lost = "no method"

    def on_partitions_assigned(self, partitions):
        pass

    def on_partitions_revoked(self, partitions):
        pass


class Async(Listener):
    async def before_starting_fetchers(self, partitions, assignment):
        pass


class AsyncInJavasWords(WrongInJavasWords):
    async def on_partitions_lost(self, partitions):
        pass


async def coroutine(*_):
    pass


POSITIONS = {
    "seek": lambda c: c.seek(P0, 1),
    "pause": lambda c: c.pause([P0]),
    "resume": lambda c: c.resume([P0]),
    "position": lambda c: c.position(P0),
    "committed": lambda c: c.committed([P0]),
    "lag": lambda c: c.lag(),
}
OF_LISTS = {
    "pause": lambda c, v: c.pause(v),
    "resume": lambda c, v: c.resume(v),
    "committed": lambda c, v: c.committed(v),
    "lag": lambda c, v: c.lag(v),
    "log_ends": lambda c, v: c.log_ends(v),
}
BEFORE = {
    **{f"streams={v!r}": (ConfigError, lambda c, v=v: c.create_message_streams({"t": v})) for v in NO_STREAMS},
    **{f"topic={v!r}": (ConfigError, lambda c, v=v: c.create_message_streams({v: 1})) for v in NO_TOPICS},
    **{
        f"counts={v!r}": (ConfigError, lambda c, v=v: c.create_message_streams(v)) for v in ("t", ["t"], None, 1, {"t"})
    },
    "streams in all": (
        ConfigError,
        lambda c: c.create_message_streams(dict.fromkeys(map("t{}".format, range(11)), 9999)),
    ),
    **{
        f"streams by filter={v!r}": (ConfigError, lambda c, v=v: c.create_message_streams_by_filter(Whitelist("t"), v))
        for v in NO_STREAMS
    },
    **{
        f"filter={v!r}": (ConfigError, lambda c, v=v: c.create_message_streams_by_filter(v))
        for v in ("t.*", None, ["t"], object)
    },
    **{
        f"listener={v!r}": (ConfigError, lambda c, v=v: c.set_rebalance_listener(v))
        for v in (Listener(), Wrong(), WrongInJavasWords(), Async(), AsyncInJavasWords(), object(), print, "listener")
    },
    "commit": (NotJoinedError, lambda c: c.commit_offsets()),
    "commit of offsets": (NotJoinedError, lambda c: c.commit_offsets({P0: 1})),
    "log ends": (NotJoinedError, lambda c: c.log_ends([P0])),
    **{name: (NotJoinedError, call) for name, call in POSITIONS.items()},
}
WAITING = {
    **{
        f"waits for {v!r}": (TypeError, lambda c, v=v: c.wait_until(v, 1))
        for v in (None, True, "STABLE", 7, [print], coroutine)
    },
    **{f"waits {v!r} s": (error, lambda c, v=v: c.wait_until(lambda _: True, v)) for v, error in NO_TIMES},
    **{f"at shutdown={v!r}": (TypeError, lambda c, v=v: c.at_shutdown(v)) for v in (None, "close", 7, coroutine)},
}
BEFORE |= WAITING
LEAVING = {f"leaves in {v!r} s": (error, lambda c, v=v: c.unsubscribe(v)) for v, error in NO_TIMES if v is not None}
BEFORE |= LEAVING
DURING = {
    **WAITING,
    **LEAVING,
    **{f"offset={v!r}": (OffsetError, lambda c, v=v: c.commit_offsets({P0: v})) for v in NO_OFFSETS},
    **{f"topic={v!r}": (OffsetError, lambda c, v=v: c.commit_offsets({TopicPartition(v, 0): 1})) for v in NO_TOPICS},
    **{
        f"partition={v!r}": (OffsetError, lambda c, v=v: c.commit_offsets({TopicPartition("t", v): 1}))
        for v in NO_PARTITIONS
        # a tuple that equals the owned partition counts as that partition
    },
    **{
        f"key={v!r}": (OffsetError, lambda c, v=v: c.commit_offsets({v: 1}))
        for v in ("t", ("t", 0), ("t", 1, 2), None, 7)
    },
    **{f"offsets={v!r}": (OffsetError, lambda c, v=v: c.commit_offsets(v)) for v in ([P0], "t/0", 5, {P0}, (P0, 5))},
    "unknown topic": (NoSuchTopicError, lambda c: c.commit_offsets({TopicPartition("nope", 0): 1})),
    "unknown topic, unfenced": (
        NoSuchTopicError,
        lambda c: c.commit_offsets({TopicPartition("nope", 0): 1}, unfenced=True),
    ),
    **{f"unfenced={v!r}": (TypeError, lambda c, v=v: c.commit_offsets({P0: 1}, unfenced=v)) for v in ("no", 1, None)},
    **{f"all unfenced={v!r}": (TypeError, lambda c, v=v: c.commit_offsets(unfenced=v)) for v in (True, "no", None)},
    "unknown partition": (NoSuchPartitionError, lambda c: c.commit_offsets({TopicPartition("t", 99): 1})),
    "one of two": (OffsetError, lambda c: c.commit_offsets({P0: 1, TopicPartition("t", 1): "x"})),
    **{f"seek {v!r}": (OffsetError, lambda c, v=v: c.seek(P0, v)) for v in NO_POSITIONS},
    **{f"seek in {v!r}": (OffsetError, lambda c, v=v: c.seek(v, 0)) for v in ("t", ("t", 0), None, 7)},
    **{f"position of {v!r}": (OffsetError, lambda c, v=v: c.position(v)) for v in ("t", ("t", 0), None, 7)},
    **{
        f"{name} of {v!r}": (OffsetError, lambda c, v=v, call=call: call(c, v))
        for name, call in OF_LISTS.items()
        for v in [*NO_LISTS, ["t"], [None], [P0, ("t", 1)]]
        if (name, v) != ("lag", None)
    },
    **{
        f"{name} of another's": (NotAssignedError, lambda c, call=call: call(c, [P0, TopicPartition("t", 99)]))
        for name, call in OF_LISTS.items()
        if name not in ("committed", "log_ends")
    },
    "seek in another's": (NotAssignedError, lambda c: c.seek(TopicPartition("t", 99), 0)),
    "position in another's": (NotAssignedError, lambda c: c.position(TopicPartition("t", 99))),
    **{f"acknowledge {v!r}": (TypeError, lambda c, v=v: c.acknowledge(v)) for v in (None, 5, P0, [], "t/0", object)},
    "streams again": (MessageStreamsExistError, lambda c: c.create_message_streams({"t": 1})),
    "listener": (MessageStreamsExistError, lambda c: c.set_rebalance_listener(None)),
}
AFTER = {
    "streams": lambda c: c.create_message_streams({"t": 1}),
    "unsubscribe": lambda c: c.unsubscribe(),
    "listener": lambda c: c.set_rebalance_listener(None),
    "commit": lambda c: c.commit_offsets(),
    "commit of offsets": lambda c: c.commit_offsets({P0: 1}),
    "log ends": lambda c: c.log_ends([P0]),
    **POSITIONS,
}


@pytest.fixture(scope="module")
def fresh():
    world = World()
    return world, world.connector()


@pytest.fixture(scope="module")
def joined():
    world = World()
    with world.connector(auto_commit_enable=False) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        assert next(stream).offset() == 0
        yield world, connector
        assert (connector.paused(), connector.position(P0)) == (frozenset(), 1)
        connector.commit_offsets({P0: 1})
        assert world.admin.get_data("/consumers/g/offsets/t/0").data == b"1", "it does its work all the same"


@pytest.fixture(scope="module", params=[False, True], ids=["never joined", "joined"])
def closed(request):
    connector = World().connector()
    if request.param:
        connector.create_message_streams({"t": 1})
    connector.shutdown()
    return connector


def refuses(world, connector, error, call):
    before = world.znodes()
    with pytest.raises(error) as caught:
        call(connector)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) > 15
    assert world.znodes() == before, "nothing was written"


@pytest.mark.parametrize("name", BEFORE)
def test_before_it_has_joined(fresh, name):
    refuses(*fresh, *BEFORE[name])


@pytest.mark.parametrize("name", DURING)
def test_while_it_is_a_member(joined, name):
    refuses(*joined, *DURING[name])


@pytest.mark.parametrize("name", AFTER)
def test_after_it_has_left(closed, name):
    with pytest.raises(ConsumerClosedError, match="was shut down"):
        AFTER[name](closed)


def test_harmless_calls_after_the_end_do_nothing(closed):
    closed.shutdown()
    closed.end_streams()
    called = []
    closed.at_shutdown(lambda: called.append(1))
    assert called == [1]
    assert closed.counters.commits == 0
    assert closed.status.owned == {}
    assert not closed.vitals.connected


def test_offsets_may_be_numpys_as_they_are_taken_from_arrow_batches():
    world = World()
    with world.connector(auto_commit_enable=False) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        offset = next(stream.arrow_batches(2)).column("offset").to_numpy()[-1]
        connector.commit_offsets({P0: offset + 1})
        stream.seek(P0, offset)
        assert next(stream).offset() == 1
    assert world.admin.get_data("/consumers/g/offsets/t/0").data == b"2"


@pytest.mark.parametrize("timeout", [0, 0.0, 5, math.inf, 10**30, 10**400])
def test_any_time_will_do_to_wait_for_what_is_so_already(joined, timeout):
    _, connector = joined
    assert connector.wait_until(lambda status: P0 in status.owned, timeout)


# The other consumer


READING = {
    **{f"topic={v!r}": (ConfigError, lambda c, v=v: c.partitions(v)) for v in NO_TOPICS},
    "unknown topic": (NoSuchTopicError, lambda c: c.partitions("nope")),
    "fetch of an unknown topic": (NoSuchTopicError, lambda c: c.fetch(TopicPartition("nope", 0), 0)),
    "fetch of an unknown partition": (NoSuchPartitionError, lambda c: c.fetch(TopicPartition("t", 99), 0)),
    **{
        f"fetch of {v!r}": (OffsetError, lambda c, v=v: c.fetch(v, 0))
        for v in (*(TopicPartition("t", v) for v in NO_PARTITIONS), *(TopicPartition(v, 0) for v in NO_TOPICS), "t")
    },
    **{
        f"offset={v!r}": (OffsetError, lambda c, v=v: c.fetch(P0, v))
        for v in (3.7, 2.0, math.nan, "5", b"5", None, True, [5], 2**63)
    },
    **{f"negative offset={v!r}": (OffsetOutOfRangeError, lambda c, v=v: c.fetch(P0, v)) for v in (-1, -2, -(10**30))},
    **{
        f"max_messages={v!r}": ((TypeError, ValueError), lambda c, v=v: c.fetch(P0, 0, v))
        for v in (*NO_COUNTS, 2**63, math.nan)
    },
    **{f"waits {v!r} s": (error, lambda c, v=v: c.fetch(P0, 0, 1, v)) for v, error in NO_TIMES},
    **{
        f"fetch many of {v!r}": (OffsetError, lambda c, v=v: c.fetch_many(v))
        for v in ([P0], "t/0", None, P0, {"t": 0}, {("t", 0): 0}, {P0: "5"}, {P0: None}, {P0: 2**63}, {P0: 1, None: 1})
    },
    **{
        f"fetch many, max_messages={v!r}": ((TypeError, ValueError), lambda c, v=v: c.fetch_many({P0: 0}, v))
        for v in (*NO_COUNTS, 2**63, math.nan)
    },
    **{f"fetch many waits {v!r} s": (error, lambda c, v=v: c.fetch_many({P0: 0}, 1, v)) for v, error in NO_TIMES},
    **{
        f"offsets before of {v!r}": (OffsetError, lambda c, v=v: c.offsets_before(v, -1))
        for v in (*(TopicPartition("t", v) for v in NO_PARTITIONS), None, "t", ("t", 0))
    },
    **{
        f"time={v!r}": ((TypeError, ValueError), lambda c, v=v: c.offsets_before(P0, v))
        for v in (-3, 2**63, 1.5, "0", None, True, math.nan)
    },
    **{f"max_offsets={v!r}": ((TypeError, ValueError), lambda c, v=v: c.offsets_before(P0, -1, v)) for v in NO_COUNTS},
}


@pytest.fixture(scope="module")
def reading():
    world = World()
    fetchers = FakeFetchers(world.kafka)
    with SimpleConsumer(
        store=MemoryStore(world.zookeeper),
        fetcher=fetchers.fetcher(),
        log_offsets=fetchers,
        zookeeper_connect="memory",
    ) as consumer:
        yield world, consumer
        assert [message.offset() for message in consumer.fetch(P0, 1)] == [1, 2], "it does its work all the same"


@pytest.mark.parametrize("name", READING)
def test_a_simple_consumer_refuses_it_as_clearly(reading, name):
    refuses(*reading, *READING[name])


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.partitions("t"),
        lambda c: c.brokers(),
        lambda c: c.fetch(P0, 0),
        lambda c: c.fetch_many({P0: 0}),
        lambda c: c.offsets_before(P0, -1),
    ],
)
def test_a_closed_simple_consumer_raises_an_error(call):
    consumer = SimpleConsumer(store=MemoryStore(MemoryZooKeeper()), zookeeper_connect="memory")
    consumer.close()
    consumer.close()
    with pytest.raises(ConsumerClosedError, match="was shut down"):
        call(consumer)


@pytest.mark.parametrize("config", ["consumer.properties", {"group.id": "g"}, 7, b"x", object()])
@pytest.mark.parametrize("consumer", [ConsumerConnector, SimpleConsumer])
def test_a_value_that_is_no_configuration_is_refused(consumer, config):
    with pytest.raises(TypeError, match=r"config must be a \w+, not .*: \w+\.load\(path\) reads a file"):
        consumer(config)


@pytest.mark.parametrize("path", [{"group.id": "g"}, 7, b"x", ["a"]])
@pytest.mark.parametrize("kind", [ConsumerConfig, ClusterConfig])
def test_a_value_that_is_no_path_is_no_properties_file(kind, path):
    with pytest.raises(ConfigError, match=r"properties file=.*must be the path"):
        kind.load(path)


@pytest.mark.parametrize("overrides", ["group.id=g", [("group.id", "g")], 7])
def test_a_value_that_is_no_mapping_is_no_properties(overrides):
    with pytest.raises(ConfigError, match=r"overrides=.*must be \{property: value\}"):
        ConsumerConfig.load(None, overrides)


@pytest.mark.parametrize("value", [True, 3.7, "3.7", "1_000", "٣", "", None, [], math.nan, -1, 10**12])
def test_a_value_that_is_no_number_of_milliseconds_is_refused(value):
    with pytest.raises(ConfigError, match=r"auto.commit.interval.ms"):
        ConsumerConfig.load(zookeeper_connect="a", group_id="g", auto_commit_interval_ms=value)


@pytest.mark.parametrize("take", [pickle.dumps, copy.deepcopy])
def test_a_consumer_that_is_pickled_or_copied_says_what_to_do(joined, take):
    """As after a fork. In an earlier version, the error only said that a lock cannot be pickled."""
    _, connector = joined
    (stream,) = connector._membership.streams.by_key.values()
    simple = SimpleConsumer(zookeeper_connect="nowhere:1")
    for consumer in (connector, connector.acknowledge, KafkaStream(stream, connector.paused), simple):
        with pytest.raises(TypeError, match="make another one in the process that needs it"):
            take(consumer)
    simple.close()


@pytest.mark.parametrize("tp", [ConfluentPartition("t", 0), ("t", 0), TopicPartition("t", Fraction(0)), "t/0"])
def test_an_error_about_a_partition_says_of_which_library_and_types_it_is_made(joined, tp):
    """A value of a data frame may print as TopicPartition(topic='t', partition=0) too, though its types differ."""
    with pytest.raises(OffsetError, match=r"legacy_consumer.TopicPartition\('orders', 0\), made of a str and an int"):
        joined[1].seek(tp, 0)
