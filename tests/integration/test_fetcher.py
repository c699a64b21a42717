"""The contract of the fetcher seam, for both fetchers, in detail and on one broker version.

test_brokers_fetchers.py tests both fetchers on all versions.
"""

import logging
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from legacy_consumer import fetching as fetching_room
from legacy_consumer.config import ConsumerConfig
from legacy_consumer.embedded import EmbeddedKafka
from legacy_consumer.errors import BrokersUnavailableError, OffsetOutOfRangeError
from legacy_consumer.fetching import librdkafka
from legacy_consumer.fetching.columnar import ColumnarFetchers
from legacy_consumer.fetching.fetcher import EARLIEST, LATEST
from legacy_consumer.fetching.librdkafka import (
    LibrdkafkaFetcher,
    LibrdkafkaFetchers,
    LibrdkafkaLogOffsets,
    ProduceError,
    Record,
    produce_all,
)
from legacy_consumer.fetching.librdkafka.client_consumer import ConsumerHandle
from legacy_consumer.fetching.librdkafka.client_queries import QueryHandle
from legacy_consumer.fetching.librdkafka.settings import fetcher_settings, query_settings
from legacy_consumer.fetching.positions import PositionFinder
from tests.support.at_line import AtLine, PassedLines, interrupt
from tests.support.fetching import Fetched, fetch, is_silent, poll_into
from tests.support.log_start import delete_records
from tests.support.stopwatch import Stopwatch
from tests.support.waiting import eventually
from zk_layout.kazoo_store import KazooStore
from zk_layout.model import Broker, Endpoint, TopicPartition

pytestmark = pytest.mark.kafka

PER_PARTITION = 2000
FETCHING = str(Path(fetching_room.__file__).parent)


@pytest.fixture(scope="module")
def kafka():
    with EmbeddedKafka(properties={"log.cleaner.backoff.ms": "100"}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def store(kafka):
    zk = KazooStore(config_of(kafka).zk_settings())
    zk.start()
    yield zk
    zk.close()


@pytest.fixture(scope="module")
def topic(kafka):
    """Fill four partitions with 2,000 messages each, whose values are their own partition and offset."""
    kafka.create_topic("full", partitions=4)
    produce(kafka, "full", ((None, b"%d/%d" % (p, i), p) for i in range(PER_PARTITION) for p in range(4)))
    return [TopicPartition("full", p) for p in range(4)]


def config_of(kafka, **properties):
    return ConsumerConfig.load(zookeeper_connect=kafka.zookeeper_connect, group_id="g", **properties)


def produce(kafka, topic, records):
    return produce_all(topic, records, {"bootstrap.servers": kafka.bootstrap_servers})


BOTH = (LibrdkafkaFetchers, ColumnarFetchers)


@pytest.fixture(params=BOTH, ids=["librdkafka", "columnar"])
def factory(request):
    """Return the factory of each fetcher in turn, since both have to keep the contract of the seam."""
    return request.param


@pytest.fixture
def own(factory):
    """Return a function that makes a topic's name for this fetcher alone."""
    return lambda name: f"{name}-{factory.__name__}"


@pytest.fixture
def fetching(factory):
    @contextmanager
    def fetching(kafka, store, **properties):
        fetchers = factory(config_of(kafka, **properties), store)
        try:
            yield fetchers.fetcher()
        finally:
            fetchers.close()

    return fetching


def tasks():
    return len(list(Path("/proc/self/task").iterdir())), threading.active_count()


# Messages


def test_everything_comes_exactly_once_in_order(fetching, kafka, store, topic):
    with fetching(kafka, store) as fetcher:
        fetcher.assign(dict.fromkeys(topic, 0))
        got = fetch(fetcher, 4 * PER_PARTITION)
        assert is_silent(fetcher)
    for tp in topic:
        assert got.offsets(tp) == list(range(PER_PARTITION))
        assert [m.value() for m in got.messages[tp]] == [b"%d/%d" % (tp.partition, i) for i in range(PER_PARTITION)]


@pytest.mark.parametrize("max_messages", [1, 7, 5000])
def test_a_batch_is_never_larger_than_asked_for(fetching, kafka, store, topic, max_messages):
    with fetching(kafka, store) as fetcher:
        fetcher.assign({topic[0]: PER_PARTITION - 100})
        got = fetch(fetcher, 100, max_messages=max_messages)
    assert got.offsets(topic[0]) == list(range(PER_PARTITION - 100, PER_PARTITION))


def test_keys_values_headers_and_timestamps_arrive(own, fetching, kafka, store):
    tp = TopicPartition(own("parts"), 0)
    kafka.create_topic(tp.topic)
    produce(
        kafka,
        tp.topic,
        [
            Record(b"k", b"v", 0, 1_500_000_000_000, (("a", b"1"), ("a", None), ("b", b""))),
            Record(None, b"v"),
            Record(b"k", None),
            Record(b"", b""),
        ],
    )
    with fetching(kafka, store) as fetcher:
        fetcher.assign({tp: 0})
        first, *rest = fetch(fetcher, 4).messages[tp]
    assert (first.key(), first.value(), first.timestamp()) == (b"k", b"v", (1, 1_500_000_000_000))
    assert first.headers() == [("a", b"1"), ("a", None), ("b", b"")]
    assert [(m.key(), m.value()) for m in rest] == [(None, b"v"), (b"k", None), (b"", b"")]
    assert rest[0].headers() is None


def test_many_partitions_have_exact_positions(own, fetching, kafka, store):
    """More partitions than the fetcher asks librdkafka about at a time, in topics that share partition numbers."""
    wanted = []
    for name in map(own, ("many-a", "many-b", "many-c")):
        kafka.create_topic(name, partitions=40)
        produce(kafka, name, ((None, b"x", p) for _ in range(20) for p in range(40)))
        wanted += [TopicPartition(name, p) for p in range(40)]
    with fetching(kafka, store) as fetcher:
        fetcher.assign({tp: tp.partition % 5 for tp in wanted})
        got = fetch(fetcher, sum(20 - tp.partition % 5 for tp in wanted))
    assert got.positions == dict.fromkeys(wanted, 20)


def test_no_partition_is_left_out_while_a_slow_user_takes_the_others(own, fetching, kafka, store):
    """Each partition holds more than fits into one response, and the fetcher is faster than the user's code."""
    name, partitions, each = own("wide"), 24, 12_000
    kafka.create_topic(name, partitions=partitions)
    produce(kafka, name, (Record(None, b"x" * 200, n % partitions) for n in range(partitions * each)))
    with fetching(kafka, store) as fetcher:
        fetcher.assign({TopicPartition(name, p): 0 for p in range(partitions)})
        got = fetch(fetcher, partitions * each * 3 // 4, max_messages=100)
    assert len(got.messages) == partitions


def test_gaps_of_compaction_leave_exact_positions(own, fetching, kafka, store):
    config = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    tp = TopicPartition(own("compacted"), 0)
    kafka.create_topic(tp.topic, config=config)
    produce(kafka, tp.topic, ((b"%d" % (i % 3), b"%d" % i) for i in range(1000)))

    def is_compacted():
        # the broker begins a new segment only at a write
        produce(kafka, tp.topic, [(b"end", b"")])
        with fetching(kafka, store) as fetcher:
            fetcher.assign({tp: 0})
            return fetch(fetcher, 1).offsets(tp)[0] > 0

    eventually(is_compacted)
    produce(kafka, tp.topic, [(b"last", b"")])
    with fetching(kafka, store) as fetcher:
        fetcher.assign({tp: 0})
        got = fetch(fetcher, 0, until=lambda f: any(m.key() == b"last" for m in f.messages[tp]))
    assert got.positions[tp] > got.count


# Assigning


def test_no_message_of_an_unassigned_partition_comes(fetching, kafka, store, topic):
    with fetching(kafka, store) as fetcher:
        fetcher.assign({topic[0]: 0, topic[1]: 0})
        fetch(fetcher, 10, max_messages=10)
        fetcher.unassign([topic[0], TopicPartition("never", 0)])
        rest = fetch(fetcher, 0, until=lambda f: f.positions.get(topic[1]) == PER_PARTITION)
        assert topic[0] not in rest.messages
        assert is_silent(fetcher)


def test_a_partition_continues_at_the_position_of_its_new_assignment(fetching, kafka, store, topic):
    with fetching(kafka, store) as fetcher:
        for start in (0, 1500, 1500, 3):
            fetcher.assign({topic[0]: start})
            assert fetch(fetcher, 10, max_messages=10).offsets(topic[0]) == list(range(start, start + 10))


def test_a_position_that_is_reached_again_is_reported_again(fetching, kafka, store, topic):
    """After each step back, five messages lead to the same position, and the fetcher reports it again."""
    with fetching(kafka, store) as fetcher:
        for _ in range(3):
            fetcher.assign({topic[0]: 10})
            assert fetch(fetcher, 5, max_messages=5).positions == {topic[0]: 15}


def test_the_last_of_several_changes_counts(fetching, kafka, store, topic):
    with fetching(kafka, store) as fetcher:
        fetcher.assign({topic[0]: 0, topic[1]: 0})
        fetcher.unassign([topic[1]])
        fetcher.assign({topic[0]: 1990})
        got = fetch(fetcher, 10)
        assert is_silent(fetcher)
    assert got.positions == {topic[0]: PER_PARTITION}


def test_kept_partitions_flow_while_others_change(fetching, kafka, store, topic):
    with fetching(kafka, store) as fetcher:
        fetcher.assign({topic[0]: 0})
        got = Fetched()
        for step in range(2 * PER_PARTITION // 10):
            if step % 2:
                fetcher.unassign([topic[1], topic[2]])
            else:
                fetcher.assign({topic[1]: 0, topic[2]: 500})
            poll_into(got, fetcher, 10)
        fetcher.unassign(topic[1:])
        while got.positions.get(topic[0]) != PER_PARTITION:
            poll_into(got, fetcher)
    assert got.offsets(topic[0]) == list(range(PER_PARTITION))


def is_waiting(thread_id):
    """Return whether this thread waits in a poll. A change that comes before the wait does not end the poll."""
    frame = sys._current_frames()[thread_id]
    while frame is not None:
        code = frame.f_code
        if code.co_name in {"wait", "consume"} and code.co_filename.startswith(FETCHING):
            return True
        frame = frame.f_back
    return False


def test_a_change_from_another_thread_ends_a_poll_that_waits(fetching, kafka, store, topic):
    me = threading.get_ident()
    with fetching(kafka, store) as fetcher, ThreadPoolExecutor(1) as another:

        def once_it_polls(change, begun):
            eventually(lambda: is_waiting(me))
            begun.set()
            change()

        for change in (lambda: fetcher.assign({topic[0]: 0}), lambda: fetcher.unassign(topic), fetcher.wake):
            fetcher.assign({topic[0]: PER_PARTITION})
            assert fetcher.poll(10, 0.5) is None, "nothing comes by itself"
            begun = threading.Event()
            changing = another.submit(once_it_polls, change, begun)
            with Stopwatch() as watch:
                while not begun.is_set():
                    fetcher.poll(10, 60)
            changing.result()
            assert watch.seconds < 5


def test_a_wake_that_comes_before_a_poll_ends_it(fetching, kafka, store, topic):
    with fetching(kafka, store) as fetcher:
        fetcher.assign({topic[0]: PER_PARTITION})
        assert fetcher.poll(10, 0.5) is None, "nothing comes by itself"
        fetcher.wake()
        with Stopwatch() as watch:
            assert fetcher.poll(10, 60) is None
        assert watch.seconds < 5


def test_a_message_is_handed_over_as_soon_as_it_is_there(own, fetching, kafka, store):
    tp = TopicPartition(own("trickle"), 0)
    kafka.create_topic(tp.topic)
    waits = []
    with fetching(kafka, store) as fetcher:
        fetcher.assign({tp: 0})
        assert fetcher.poll(500, 0.5) is None
        for i in range(7):
            produce(kafka, tp.topic, [(None, b"%d" % i)])
            with Stopwatch() as watch:
                assert fetch(fetcher, 1).positions == {tp: i + 1}
            waits.append(watch.seconds)
    # the median, because the broker may be busy during one of them
    assert statistics.median(waits) < 1.0


# Positions that the fetcher has to find


def test_an_empty_topic_has_positions_but_no_messages(own, fetching, kafka, store):
    kafka.create_topic(own("empty"), partitions=2)
    first, second = TopicPartition(own("empty"), 0), TopicPartition(own("empty"), 1)
    with fetching(kafka, store) as fetcher:
        fetcher.assign({first: EARLIEST, second: LATEST})
        got = fetch(fetcher, 0, until=lambda f: len(f.positions) == 2)
        assert got.positions == {first: 0, second: 0}
        assert is_silent(fetcher, 0.5)


def test_the_ends_of_a_log_are_found_and_told(fetching, kafka, store, topic):
    with fetching(kafka, store) as fetcher:
        fetcher.assign({topic[0]: EARLIEST, topic[1]: LATEST})
        got = fetch(fetcher, PER_PARTITION)
    assert {tp: at for move in got.moves for tp, at in move.items()} == {topic[0]: 0, topic[1]: PER_PARTITION}
    assert got.offsets(topic[0]) == list(range(PER_PARTITION))
    assert topic[1] not in got.messages


@pytest.mark.usefixtures("_lone_broker")
@pytest.mark.parametrize(("reset", "goes_to"), [("smallest", 0), ("largest", PER_PARTITION)])
def test_a_position_behind_the_log_is_reset_and_told(fetching, kafka, store, topic, reset, goes_to, caplog):
    with fetching(kafka, store, auto_offset_reset=reset) as fetcher, caplog.at_level(logging.WARNING):
        fetcher.assign({topic[0]: 999_999, topic[1]: 0})
        got = fetch(fetcher, 0, until=lambda f: topic[0] in f.positions and f.positions.get(topic[1]) == PER_PARTITION)
    assert {topic[0]: goes_to} in got.moves
    said = f"full/0: offset 999999 is outside the log, which holds 0 to {PER_PARTITION}; going to {goes_to}, by"
    assert said in caplog.text


@pytest.mark.parametrize(("reset", "goes_to"), [("smallest", 60), ("largest", 100)])
def test_a_position_before_the_log_is_reset_and_told(own, factory, kafka, store, reset, goes_to, caplog):
    tp = TopicPartition(own(f"shortened-{reset}"), 0)
    kafka.create_topic(tp.topic)
    produce(kafka, tp.topic, ((None, b"%d" % n) for n in range(100)))
    delete_records(kafka.bootstrap_servers, tp, before=60)
    with closing(factory(config_of(kafka, auto_offset_reset=reset), store)) as fetchers:
        lookup, fetcher = fetchers.log_offsets(), fetchers.fetcher()
        assert (lookup.earliest([tp]), lookup.latest([tp])) == ({tp: 60}, {tp: 100})
        fetcher.assign({tp: 0})
        got = fetch(fetcher, 0, until=lambda f: f.positions.get(tp) == 100)
    assert got.moves == [{tp: goes_to}]
    assert got.offsets(tp) == list(range(goes_to, 100))
    assert f"{tp.topic}/0: offset 0 is outside the log, which holds 60 to 100; going to {goes_to}, by" in caplog.text


@pytest.mark.usefixtures("_lone_broker")
def test_without_a_policy_a_position_outside_the_log_is_an_error(kafka, topic):
    with _fetcher_without_policy(kafka) as fetcher:
        fetcher.assign({topic[0]: 999_999, topic[1]: 0})
        with pytest.raises(OffsetOutOfRangeError) as caught:
            fetch(fetcher, 0, until=lambda f: False)
        assert (caught.value.partition, caught.value.latest) == (topic[0], PER_PARTITION)
        assert poll_until_some(fetcher) == {topic[1]}


def poll_until_some(fetcher):
    fetcher.assign({TopicPartition("full", 1): 0})
    while True:
        # after each back-off the fetcher raises the other partition's error again, until that has a valid position
        with suppress(OffsetOutOfRangeError):
            return set(fetch(fetcher, 1).messages)


@contextmanager
def _fetcher_without_policy(kafka):
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", kafka.brokers[0].port)
    brokers = [Broker(0, "127.0.0.1", endpoint.port, (endpoint,), 4)]
    settings, asking = fetcher_settings(config_of(kafka), brokers, 1), query_settings(config_of(kafka), brokers)
    log_offsets = LibrdkafkaLogOffsets(lambda: QueryHandle(asking), existing=lambda partitions: partitions)
    finder = PositionFinder(lambda: log_offsets, reset_to=None, backoff_s=0.1)
    fetcher = LibrdkafkaFetcher(lambda: ConsumerHandle(settings), finder, backoff_s=0.1)
    try:
        yield fetcher
    finally:
        fetcher.close()
        log_offsets.close()


def test_a_topic_that_is_created_later_is_read_from_then_on(own, fetching, kafka, store):
    tp = TopicPartition(own("later"), 0)
    with fetching(kafka, store) as fetcher:
        fetcher.assign({tp: 0})
        assert is_silent(fetcher, 1.0)
        kafka.create_topic(tp.topic)
        produce(kafka, tp.topic, [(None, b"x")])
        assert fetch(fetcher, 1).positions == {tp: 1}


# Closing


def test_closing_leaves_no_thread_in_any_state(fetching, kafka, store, topic):
    with fetching(kafka, store) as fetcher:  # librdkafka sets some things up once in a process
        fetcher.assign({topic[0]: EARLIEST})
        fetch(fetcher, 1)
    before = tasks()

    def never_polled(fetcher):
        fetcher.assign({topic[0]: 0})

    def waiting(fetcher):
        fetcher.assign({topic[0]: PER_PARTITION})
        fetcher.poll(10, 0.3)

    def in_the_middle(fetcher):
        fetcher.assign({topic[0]: 0})
        fetch(fetcher, 10, max_messages=10)

    def searching(fetcher):
        fetcher.assign({TopicPartition("no-such-topic", 0): EARLIEST})
        fetcher.poll(10, 0.2)

    for state in (lambda fetcher: None, never_polled, waiting, in_the_middle, searching):
        with fetching(kafka, store) as fetcher:
            state(fetcher)
        fetcher.close()
        assert fetcher.poll(10, 0) is None
        # no more than before; fewer is fine, because a thread that was about to end before is gone by now
        eventually(lambda: all(now <= then for now, then in zip(tasks(), before, strict=True)))


def test_closing_ends_a_poll_in_another_thread(fetching, kafka, store, topic):
    with fetching(kafka, store) as fetcher:
        fetcher.assign({topic[0]: PER_PARTITION})
        assert fetcher.poll(10, 0.5) is None
        polling = threading.Thread(target=fetcher.poll, args=(10, 100.0))
        polling.start()
        eventually(lambda: is_waiting(polling.ident))
        with Stopwatch() as watch:
            fetcher.close()
            polling.join(60)
        assert not polling.is_alive()
        assert watch.seconds < 2


# Producing


def test_unacknowledged_messages_are_counted(kafka):
    # an invalid name, because a broker would create a topic with a valid one
    with pytest.raises(ProduceError) as caught:
        produce_all("no such topic", [(None, b"x")] * 7, {"bootstrap.servers": kafka.bootstrap_servers}, timeout_s=3)
    assert (caught.value.failed, caught.value.produced) == (7, 7)


def test_keys_stay_together(own, fetching, kafka, store):
    topic = own("keyed")
    kafka.create_topic(topic, partitions=3)
    assert produce(kafka, topic, ((b"%d" % (i % 7), b"x") for i in range(700))) == 700
    with fetching(kafka, store) as fetcher:
        fetcher.assign({TopicPartition(topic, p): 0 for p in range(3)})
        got = fetch(fetcher, 700)
    homes = {(m.key(), tp) for tp, messages in got.messages.items() for m in messages}
    assert len(homes) == 7


# Brokers that go away; these tests come last, because they disturb all others


def test_with_librdkafka_a_poll_interrupted_at_any_line_brings_all_once_it_is_assigned_again(kafka, store):
    """Tests librdkafka only; test_brokers_that_fail.py interrupts the columnar fetcher."""
    kafka.create_topic("struck", partitions=3)
    produce(kafka, "struck", ((None, b"x", n % 3) for n in range(60)))
    partitions = [TopicPartition("struck", p) for p in range(3)]
    folder = Path(librdkafka.__file__).parent
    polling = tuple(str(folder / name) for name in ("fetcher.py", "batch.py", "client.py", "client_consumer.py"))

    def is_struck(strike):
        fetchers = LibrdkafkaFetchers(config_of(kafka), store)
        try:
            fetcher, got = fetchers.fetcher(), Fetched()
            fetcher.assign(dict.fromkeys(partitions[:2], 0))
            with strike, suppress(KeyboardInterrupt):
                poll_into(got, fetcher, 7)
                fetcher.assign({partitions[2]: 0})
                while got.count < 60:
                    poll_into(got, fetcher, 7)
            fetcher.unassign(partitions)
            fetcher.assign({tp: len(got.messages[tp]) for tp in partitions})
            deadline = time.monotonic() + 60
            while got.count < 60:
                assert time.monotonic() < deadline
                poll_into(got, fetcher, 7)
        finally:
            fetchers.close()
        assert [got.offsets(tp) for tp in partitions] == [list(range(20))] * 3
        return strike.struck

    lines = PassedLines(polling)
    assert not is_struck(lines)
    for number in lines.first_times(1):
        if not is_struck(AtLine(number, interrupt, library=polling)):
            return


def test_a_broker_restart_in_the_middle_loses_nothing(own, fetching, kafka, store):
    name = own("survivor")
    kafka.create_topic(name, partitions=4)
    produce(kafka, name, ((None, b"before", p) for _ in range(PER_PARTITION) for p in range(4)))
    partitions = [TopicPartition(name, p) for p in range(4)]
    with fetching(kafka, store) as fetcher:
        fetcher.assign(dict.fromkeys(partitions, 0))
        got = fetch(fetcher, 100, max_messages=10)
        kafka.brokers[0].kill()
        for _ in range(3):
            poll_into(got, fetcher, 10)
        kafka.brokers[0].start()
        produce(kafka, name, ((None, b"after", p) for p in range(4)))
        deadline = time.monotonic() + 60
        while got.count < 4 * (PER_PARTITION + 1):
            assert time.monotonic() < deadline, (got.count, got.positions)
            poll_into(got, fetcher)
    for tp in partitions:
        assert got.offsets(tp) == list(range(PER_PARTITION + 1))


def test_log_offsets_say_so_when_no_broker_answers(kafka, store, topic):
    """Asks both fetchers during the same outage, since the broker's restart takes longer than the lookups."""

    def ask(lookup):
        with Stopwatch() as watch, pytest.raises(BrokersUnavailableError, match="no answer from the brokers"):
            lookup.latest(topic)
        return watch.seconds < 10

    with ExitStack() as stack:
        made = [stack.enter_context(closing(factory(config_of(kafka), store))) for factory in BOTH]
        lookups = [fetchers.log_offsets() for fetchers in made]
        assert all(lookup.latest(topic) for lookup in lookups)
        kafka.brokers[0].kill()
        stack.callback(kafka.brokers[0].start)  # harmless if the broker runs
        with ThreadPoolExecutor(len(lookups)) as pool:
            assert list(pool.map(ask, lookups)) == [True, True]
        kafka.brokers[0].start()
        for lookup in lookups:
            eventually(lambda lookup=lookup: len(lookup.latest(topic)) == len(topic))


def test_a_fetcher_made_without_brokers_begins_when_one_is_there(kafka, store, topic):
    """Tries both fetchers, one after the other, during the same outage."""
    kafka.brokers[0].stop()
    with ExitStack() as stack:
        made = [stack.enter_context(closing(factory(config_of(kafka), store))) for factory in BOTH]
        reading = [fetchers.fetcher() for fetchers in made]
        for fetcher in reading:
            fetcher.assign({topic[0]: 0})
            assert fetcher.poll(10, 0.5) is None
        kafka.brokers[0].start()
        for fetcher in reading:
            assert fetch(fetcher, 10, max_messages=10, patience_s=60).offsets(topic[0]) == list(range(10))
