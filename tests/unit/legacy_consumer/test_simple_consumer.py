"""SimpleConsumer's questions to its fetcher and to ZooKeeper. The brokers' answers are in tests/integration."""

import threading
from itertools import count

import pytest

from legacy_consumer import (
    BrokerRefusedError,
    BrokersUnavailableError,
    ClusterConfig,
    ConfigError,
    ConsumerClosedError,
    ConsumerConfig,
    OffsetOutOfRangeError,
    SimpleConsumer,
    TopicPartition,
)
from legacy_consumer.errors import FetchError, NoSuchPartitionError, NoSuchTopicError
from legacy_consumer.fetching.fetcher import EARLIEST, LATEST
from legacy_consumer.fetching.librdkafka.fetcher import LibrdkafkaFetcher
from tests.support.at_line import AtLine, interrupt
from tests.support.fake_kafka import FakeFetcher, FakeFetchers, FakeKafka
from tests.support.memory_cluster import GuardedStore
from zk_layout.errors import LegacyConsumerError, MalformedZnodeError, NotPermittedError
from zk_layout.memory_store import Fault, MemoryStore, MemoryZooKeeper

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)

BROKER = b'{"version":%d,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://h:9092"]}'


class LogOffsets(FakeFetchers):
    """Brokers in memory. refusals: {partition: the error of every at_time() about it}."""

    def __init__(self, kafka):
        super().__init__(kafka)
        self.refusals = {}
        self.questions = 0

    def at_time(self, partition, time_ms):
        self.questions += 1
        if partition in self.refusals:
            raise self.refusals[partition]
        return super().at_time(partition, time_ms)


class World:
    def __init__(self, broker_version=2):
        self.zookeeper = MemoryZooKeeper()
        self.admin = MemoryStore(self.zookeeper)
        self.admin.start()
        self.admin.create("/brokers/ids/0", BROKER % broker_version, make_parents=True)
        self.admin.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0,1],"1":[1,0]}}', make_parents=True)
        for number, leader in ((0, 0), (1, -1)):
            state = b'{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":7,"isr":[0]}' % leader
            self.admin.create(f"/brokers/topics/t/partitions/{number}/state", state, make_parents=True)
        self.kafka = FakeKafka()
        self.kafka.produce(TP, 10)
        self.kafka.produce(OTHER, 5)
        self.fetcher = FakeFetcher(self.kafka)
        self.assigned = []
        self.forbidden = []
        self.fetcher.assign, assign = self.note_assignment, self.fetcher.assign
        self._assign = assign
        self.log_offsets = LogOffsets(self.kafka)
        self.consumer = SimpleConsumer(
            ClusterConfig.load(zookeeper_connect="z:2181"),
            store=GuardedStore(self.zookeeper, self.forbidden),
            fetcher=self.fetcher,
            log_offsets=self.log_offsets,
        )

    def note_assignment(self, positions):
        self.assigned.append(dict(positions))
        self._assign(positions)

    def spoil(self, path, kind):
        """Have reads of this znode end in this kind of error."""
        if kind is NotPermittedError:
            self.forbidden.append(path)
        else:
            self.admin.ensure_path(path)
            self.admin.set_data(path, b"no JSON")

    def fetch(self, tp, offset, max_messages=1000, timeout=0.0):
        return [message.offset() for message in self.consumer.fetch(tp, offset, max_messages, timeout)]


@pytest.fixture
def world():
    return World()


def test_a_fetch_that_goes_on_does_not_begin_anew(world):
    assert world.fetch(TP, 2, 3) == [2, 3, 4]
    assert world.fetch(TP, 5, 3) == [5, 6, 7]
    assert world.fetch(TP, 8) == [8, 9]
    assert world.fetch(TP, 10) == []
    world.kafka.produce(TP)
    assert world.fetch(TP, 10) == [10]
    assert world.assigned == [{TP: 2}]


def test_any_other_offset_or_partition_begins_anew_and_leaves_the_last_one(world):
    assert world.fetch(TP, 2, 3) == [2, 3, 4]
    assert world.fetch(TP, 2, 3) == [2, 3, 4]
    assert world.fetch(OTHER, 4) == [4]
    assert world.fetch(OTHER, 3) == [3, 4]
    assert world.fetch(TP, 5, 1) == [5]
    assert world.assigned == [{TP: 2}, {TP: 2}, {OTHER: 4}, {OTHER: 3}, {TP: 5}]


def test_a_negative_offset_is_outside_the_log(world):
    with pytest.raises(OffsetOutOfRangeError) as caught:
        world.fetch(TP, EARLIEST)
    assert (caught.value.offset, caught.value.earliest, caught.value.latest) == (EARLIEST, 0, 10)
    assert world.assigned == []


def test_after_an_error_of_the_fetcher_the_same_fetch_begins_anew(world):
    assert world.fetch(TP, 0, 5) == [0, 1, 2, 3, 4]
    outside = OffsetOutOfRangeError(TP, 5, 7, 10)

    def fail():
        raise outside

    world.fetcher.before_poll_returns = fail
    with pytest.raises(OffsetOutOfRangeError):
        world.fetch(TP, 5)
    world.fetcher.before_poll_returns = lambda: None
    assert world.fetch(TP, 5, 1) == [5]
    assert world.assigned == [{TP: 0}, {TP: 5}]


def test_unknown_topics_and_partitions_are_errors_before_anything_is_fetched(world):
    with pytest.raises(NoSuchTopicError, match="'u' does not exist"):
        world.fetch(TopicPartition("u", 0), 0)
    with pytest.raises(NoSuchPartitionError, match="t/2 does not exist: the topic has 2 partitions"):
        world.fetch(TopicPartition("t", 2), 0)
    with pytest.raises(NoSuchPartitionError):
        world.consumer.offsets_before(TopicPartition("t", 2), LATEST)
    assert world.assigned == []


def test_partitions_have_their_leader_only_while_it_is_registered(world):
    found = world.consumer.partitions("t")
    assert list(found) == [TP, OTHER]
    assert found[TP].leader.broker_id == 0
    assert (found[TP].leader_epoch, found[TP].replicas, found[TP].in_sync_replicas) == (7, (0, 1), (0,))
    assert found[OTHER].leader is None
    world.admin.delete("/brokers/ids/0")
    assert world.consumer.partitions("t")[TP].leader is None


def test_a_partition_without_a_state_has_no_leader_yet(world):
    world.admin.delete("/brokers/topics/t/partitions/0/state")
    found = world.consumer.partitions("t")[TP]
    assert (found.leader, found.leader_epoch, found.replicas) == (None, -1, (0, 1))


def test_silence_of_a_partition_without_a_leader_is_an_error_that_passes(world):
    with pytest.raises(BrokersUnavailableError, match=r"t/1 has no leader.* 1, 0") as caught:
        world.fetch(OTHER, 5, timeout=1.1)
    assert caught.value.retriable
    assert world.fetch(TP, 10, timeout=1.1) == []


@pytest.mark.parametrize("timeout", [0.0, 0.02])
def test_silence_of_partitions_without_a_leader_is_told_also_if_each_fetch_of_them_begins_anew_and_is_short(
    world, timeout
):
    state = "/brokers/topics/t/partitions/0/state"
    world.admin.set_data(state, world.admin.get_data(state).data.replace(b'"leader":0', b'"leader":-1'))
    for tp, end in ((TP, 10), (OTHER, 5), (TP, 10)):
        with pytest.raises(BrokersUnavailableError, match=f"{tp} has no leader"):
            world.fetch(tp, end, timeout=timeout)


@pytest.mark.parametrize(("broker_version", "offset"), [(1, 0), (2, 0), (3, 10), (4, 10), (5, 10)])
def test_a_time_that_no_message_has_is_the_end_or_before_all_segments(broker_version, offset):
    assert World(broker_version).consumer.offsets_before(TP, 1_500_000_000_000) == [offset]


def test_several_offsets_are_told_newest_first(world):
    assert world.consumer.offsets_before(TP, EARLIEST, 5) == [0]
    assert world.consumer.offsets_before(TP, LATEST, 3) == [10, 9, 6]
    assert world.consumer.offsets_before(TP, LATEST) == [10]


def test_a_broker_that_refuses_to_tell_where_a_log_ends_is_not_asked_again(world):
    world.log_offsets.refusals[TP] = FetchError(TP, "TOPIC_AUTHORIZATION_FAILED")
    for time_ms in (EARLIEST, LATEST, 1_500_000_000_000):
        with pytest.raises(FetchError, match="t/0: TOPIC_AUTHORIZATION_FAILED"):
            world.consumer.offsets_before(TP, time_ms)
    answers = world.consumer.fetch_many({TP: -1, OTHER: 3}, timeout=0)
    assert of(answers) == {TP: FetchError, OTHER: [3, 4]}


def test_a_fetch_from_outside_the_log_asks_for_the_log_once_however_long_no_leader_answers(world):
    world.log_offsets.refusals[TP] = BrokersUnavailableError("no leader")
    assert of(world.consumer.fetch_many({TP: -1, OTHER: 3}, timeout=0)) == {TP: BrokersUnavailableError, OTHER: [3, 4]}
    assert world.log_offsets.questions == 1


# Many partitions at once


def of(answers):
    """Return {partition: its offsets, or the class of its error}."""
    return {
        tp: type(answer) if isinstance(answer, LegacyConsumerError) else [message.offset() for message in answer]
        for tp, answer in answers.items()
    }


def test_many_partitions_are_fetched_at_once_and_go_on_without_beginning_anew(world):
    assert of(world.consumer.fetch_many({TP: 2, OTHER: 1}, timeout=0)) == {TP: [*range(2, 10)], OTHER: [1, 2, 3, 4]}
    world.kafka.produce(OTHER)
    world.zookeeper.requests.clear()
    assert of(world.consumer.fetch_many({OTHER: 5, TP: 10}, timeout=0)) == {OTHER: [5], TP: []}
    assert world.zookeeper.requests.total() == 0
    assert world.fetch(TP, 9) == [9]
    assert world.assigned == [{TP: 2, OTHER: 1}, {TP: 9}]


def test_no_message_is_lost_between_calls_that_take_a_few(world):
    positions, read = {TP: 0, OTHER: 0}, []
    while len(read) < 15:
        for tp, messages in world.consumer.fetch_many(positions, 4, 0).items():
            assert len(messages) <= 4
            read += [(tp, message.offset()) for message in messages]
            positions[tp] += len(messages)
    assert sorted(read) == [(TP, n) for n in range(10)] + [(OTHER, n) for n in range(5)]
    assert world.assigned == [{TP: 0, OTHER: 0}]


def test_each_part_has_an_error_of_its_own_and_the_others_their_messages(world):
    world.fetcher._resets = False
    gone, beyond = TopicPartition("u", 0), TopicPartition("t", 9)
    asked = {gone: 0, TP: 7, beyond: 0, OTHER: 99}
    answers = world.consumer.fetch_many(asked, timeout=0)
    assert of(answers) == {
        gone: NoSuchTopicError,
        TP: [7, 8, 9],
        beyond: NoSuchPartitionError,
        OTHER: OffsetOutOfRangeError,
    }
    assert list(answers) == list(asked)
    assert (answers[OTHER].earliest, answers[OTHER].latest) == (0, 5)
    assert of(world.consumer.fetch_many({TP: 10, OTHER: 3}, timeout=0)) == {TP: [], OTHER: [3, 4]}


def test_errors_of_all_parts_are_told_at_once(world):
    parts = {TopicPartition("u", 0): 0, TP: -1}
    assert of(world.consumer.fetch_many(parts, timeout=3600)) == {
        TopicPartition("u", 0): NoSuchTopicError,
        TP: OffsetOutOfRangeError,
    }


def test_of_parts_of_which_nothing_came_those_without_a_leader_say_so(world):
    assert of(world.consumer.fetch_many({TP: 10, OTHER: 5}, timeout=1.1)) == {TP: [], OTHER: BrokersUnavailableError}
    assert of(world.consumer.fetch_many({}, timeout=3600)) == {}


def test_an_error_of_no_part_is_an_error_of_the_call(world):
    def refuse():
        raise BrokerRefusedError("h:9092", "no")

    world.fetcher.before_poll_returns = refuse
    with pytest.raises(BrokerRefusedError):
        world.consumer.fetch_many({TP: 0, OTHER: 0})
    world.fetcher.before_poll_returns = lambda: None
    assert of(world.consumer.fetch_many({TP: 0}, 1, timeout=0)) == {TP: [0]}


def test_a_topic_that_is_deleted_meanwhile_is_an_error_of_its_parts(world):
    world.fetch(TP, 10)
    for path in ("0/state", "0", "1/state", "1", ""):
        world.admin.delete(f"/brokers/topics/t/partitions/{path}".rstrip("/"))
    world.admin.delete("/brokers/topics/t")
    assert of(world.consumer.fetch_many({TP: 10}, timeout=3600)) == {TP: NoSuchTopicError}


@pytest.mark.parametrize("kind", [MalformedZnodeError, NotPermittedError])
def test_a_topic_that_cannot_be_read_is_an_error_of_its_parts_and_the_others_have_their_messages(world, kind):
    bad = TopicPartition("bad", 0)
    world.spoil("/brokers/topics/bad", kind)
    assert of(world.consumer.fetch_many({bad: 0, TP: 8}, timeout=0)) == {bad: kind, TP: [8, 9]}
    with pytest.raises(kind):
        world.consumer.partitions("bad")


@pytest.mark.parametrize("kind", [MalformedZnodeError, NotPermittedError])
def test_a_state_that_cannot_be_read_is_an_error_of_its_part_alone(world, kind):
    world.spoil("/brokers/topics/t/partitions/1/state", kind)
    assert of(world.consumer.fetch_many({TP: 10, OTHER: 5}, timeout=1.1)) == {TP: [], OTHER: kind}
    with pytest.raises(kind):
        world.consumer.partitions("t")


def test_a_topic_that_becomes_unreadable_meanwhile_is_an_error_of_its_parts(world):
    world.fetch(TP, 10)
    world.spoil("/brokers/topics/t", MalformedZnodeError)
    assert of(world.consumer.fetch_many({TP: 10}, timeout=3600)) == {TP: MalformedZnodeError}


def test_an_error_of_a_part_that_is_no_longer_fetched_is_none_of_the_next_fetch(world):
    def fail():
        world.fetcher.before_poll_begins = lambda: None
        raise FetchError(OTHER, "of the fetch before")

    world.fetcher.before_poll_begins = fail
    assert world.fetch(TP, 8) == [8, 9]


def test_living_brokers_and_the_followers_of_a_partition_are_told(world):
    world.admin.create("/brokers/ids/1", BROKER % 2)
    assert [broker.broker_id for broker in world.consumer.brokers()] == [0, 1]
    found = world.consumer.partitions("t")
    assert [follower.broker_id for follower in found[TP].followers] == [1]
    assert [follower.broker_id for follower in found[OTHER].followers] == [1, 0], "nobody leads"
    world.admin.delete("/brokers/ids/1")
    assert [broker.broker_id for broker in world.consumer.brokers()] == [0]
    assert world.consumer.partitions("t")[TP].followers == ()


@pytest.mark.parametrize("arguments", [(TP, LATEST, 0), (TP, -3)])
def test_questions_about_offsets_that_make_no_sense_are_refused(world, arguments):
    with pytest.raises(ValueError, match="must be at least"):
        world.consumer.offsets_before(*arguments)


def test_no_messages_at_all_cannot_be_asked_for(world):
    with pytest.raises(ValueError, match="max_messages must be at least 1"):
        world.fetch(TP, 0, 0)


def test_nothing_is_written(world):
    world.zookeeper.requests.clear()
    world.fetch(TP, 0)
    world.consumer.offsets_before(TP, LATEST)
    world.consumer.partitions("t")
    assert not world.zookeeper.requests.keys() & {"create", "set_data", "delete", "multi"}
    assert world.admin.get_children("/") == ("brokers",)


def test_a_fetch_that_goes_on_asks_zookeeper_nothing(world):
    world.fetch(TP, 0, 1)
    world.zookeeper.requests.clear()
    world.fetch(TP, 1, 1)
    assert world.zookeeper.requests.total() == 0


def test_a_fetch_returns_a_list_also_without_messages(world):
    some, none = world.consumer.fetch(TP, 8), world.consumer.fetch(TP, 10, timeout=0)
    assert (some + none)[-1].offset() == 9
    assert none == []
    none.extend(some)
    assert len(none) == 2


def test_of_two_threads_each_is_given_what_it_asked_for(world):
    """The second thread asks while the first thread waits for its messages."""
    poll, fetched, began = world.fetcher.poll, [], threading.Event()
    second = threading.Thread(target=lambda: fetched.extend(world.consumer.fetch(OTHER, 2)))

    def poll_beside(most, timeout_s):
        world.fetcher.poll = poll
        world.fetcher.assign = lambda positions: (began.set(), world.note_assignment(positions))
        second.start()
        began.wait(0.3)
        return poll(most, timeout_s)

    world.fetcher.poll = poll_beside
    first = world.consumer.fetch(TP, 3)
    second.join(60)
    assert [(m.partition(), m.offset()) for m in first] == [(0, n) for n in range(3, 10)]
    assert [(m.partition(), m.offset()) for m in fetched] == [(1, n) for n in range(2, 5)]


def test_questions_are_answered_while_another_thread_waits_for_messages(world):
    answers = {}

    def ask():
        answers["brokers"] = [broker.broker_id for broker in world.consumer.brokers()]
        answers["partitions"] = [*world.consumer.partitions("t")]
        answers["offsets"] = world.consumer.offsets_before(TP, LATEST)

    def ask_beside():
        world.fetcher.before_poll_begins = lambda: None
        asking = threading.Thread(target=ask)
        asking.start()
        asking.join(10)
        answers["is_over"] = not asking.is_alive()

    world.fetcher.before_poll_begins = ask_beside
    assert world.fetch(TP, 9) == [9]
    assert answers == {"brokers": [0], "partitions": [TP, OTHER], "offsets": [10], "is_over": True}


def test_a_fetch_interrupted_at_any_line_and_made_again_leaves_no_message_out():
    line, struck = 0, True
    while struck:
        world = World()
        offsets, seen = {TP: 0, OTHER: 0}, {TP: [], OTHER: []}
        strike = AtLine(line, interrupt)
        while offsets[TP] < 10 or offsets[OTHER] < 5:
            try:
                with strike:
                    answers = world.consumer.fetch_many(offsets, 8, timeout=20)
            except KeyboardInterrupt:
                continue
            for tp, messages in answers.items():
                seen[tp] += [message.offset() for message in messages]
                offsets[tp] += len(messages)
        assert seen == {TP: [*range(10)], OTHER: [*range(5)]}, f"interrupted at line {line}"
        struck = strike.struck
        line += 1
    assert line > 100, "the library's lines were not seen"


def test_a_closed_consumer_raises_an_error(world):
    world.fetch(TP, 0)
    world.consumer.close()
    world.consumer.close()
    for ask in (
        lambda: world.fetch(TP, 10),
        lambda: world.consumer.partitions("t"),
        lambda: world.consumer.offsets_before(TP, LATEST),
    ):
        with pytest.raises(ConsumerClosedError):
            ask()


@pytest.mark.parametrize("request_number", range(1, 6))
@pytest.mark.parametrize("ask", ["fetch", "partitions", "offsets_before", "brokers"])
def test_a_call_that_a_close_interrupts_says_that_the_consumer_is_closed(world, ask, request_number):
    requests = count(1)

    def close(session, _):
        if session != world.admin.session_id and next(requests) == request_number:
            world.zookeeper.fault = None
            threading.Thread(target=world.consumer.close, daemon=True).start()
            world.consumer._closed.wait()
            return Fault.LOSE_REPLY
        return None

    given = {"fetch": (TP, 0), "partitions": ("t",), "offsets_before": (TP, LATEST), "brokers": ()}[ask]
    world.zookeeper.fault = close
    try:
        getattr(world.consumer, ask)(*given)
    except ConsumerClosedError:
        assert next(requests) > request_number
    else:
        assert next(requests) <= request_number, "it needed fewer requests"


def test_a_configuration_and_properties_are_one_too_many():
    with pytest.raises(TypeError, match="either"):
        SimpleConsumer(ClusterConfig.load(zookeeper_connect="z"), zookeeper_connect="z")


def test_an_invalid_configuration_is_refused_before_any_connection():
    with pytest.raises(ConfigError, match=r"zookeeper\.connect"):
        SimpleConsumer()
    with pytest.raises(ConfigError, match=r"fetch\.message\.max\.bytes"):
        SimpleConsumer(zookeeper_connect="z", fetch_message_max_bytes=0)
    config = ConsumerConfig.load(None, {"rdkafka.fetch.max.bytes": "1"}, zookeeper_connect="z", group_id="g")
    with pytest.raises(ConfigError, match=r"rdkafka\.fetch\.max\.bytes"):
        SimpleConsumer(config)


def test_the_property_that_chooses_the_fetcher_is_not_taken_for_one():
    with SimpleConsumer(zookeeper_connect="z:2181", store=MemoryStore(MemoryZooKeeper()), fetcher="librdkafka") as one:
        assert isinstance(one._fetcher, LibrdkafkaFetcher)
    with pytest.raises(ConfigError, match="fetcher=fastest"):
        SimpleConsumer(zookeeper_connect="z:2181", fetcher="fastest")


def test_a_client_without_a_name_may_fetch_with_librdkafka():
    """librdkafka ended the process (SIGABRT): its group had the empty name of the client."""
    nameless = ClusterConfig.load(None, {"client.id": "", "rdkafka.client.rack": "r"}, zookeeper_connect="z:2181")
    SimpleConsumer(nameless).close()


def test_the_connection_to_zookeeper_is_closed_though_another_part_raises_while_closing(world):
    class Broken(FakeFetcher):
        def close(self):
            raise RuntimeError("cannot close")

    store = MemoryStore(world.zookeeper)
    consumer = SimpleConsumer(
        zookeeper_connect="z:2181", store=store, fetcher=Broken(world.kafka), log_offsets=LogOffsets(world.kafka)
    )
    assert consumer.partitions("t")
    assert store.session_id
    with pytest.raises(RuntimeError, match="cannot close"):
        consumer.close()
    assert not store.session_id
