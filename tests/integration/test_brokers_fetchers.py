"""Both fetchers on every broker version deliver the same messages of the same logs, in every format and codec.

test_fetcher.py checks the seam's contract in detail, on one version.
"""

import contextlib
import logging
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.errors import FetchError
from legacy_consumer.fetching.columnar import ColumnarFetchers
from legacy_consumer.fetching.columnar.segments import read_entries
from legacy_consumer.fetching.fetcher import EARLIEST, LATEST
from legacy_consumer.fetching.librdkafka import LibrdkafkaFetcher, LibrdkafkaFetchers, Record
from tests.support.broker_cluster import CODECS, FORMAT_VERSIONS, FORMATS, on_every_broker, tp
from tests.support.fetching import Fetched, fetch, is_silent, poll_into
from tests.support.waiting import eventually
from zk_layout.errors import NodeExistsError
from zk_layout.kazoo_store import KazooStore

pytestmark = pytest.mark.kafka

COUNT = 400
PRODUCE = Path(__file__).parent / "java" / "Produce.java"


@pytest.fixture
def store(cluster):
    zk = KazooStore(config_of(cluster).zk_settings())
    zk.start()
    yield zk
    zk.close()


def config_of(cluster, **properties):
    return ConsumerConfig.load(zookeeper_connect=cluster.kafka.zookeeper_connect, group_id="g", **properties)


def records(magic, seed):
    """Yield records of all kinds that the format has: keys and values that are missing, empty, binary and large."""
    chance = random.Random(seed)
    texts = [b"", b"a", bytes(range(256)), b"the same again and again " * 50]
    for number in range(COUNT):
        key = chance.choice([None, b"", b"%d" % (number % 7), chance.randbytes(20)])
        value = chance.choice([None, *texts, chance.randbytes(chance.randrange(3000))])
        headers = ()
        if magic == 2 and chance.random() < 0.3:
            headers = tuple((f"h{n}", chance.choice([None, b"", b"x" * n])) for n in range(chance.randrange(4)))
        yield Record(key, value, 0, 1_400_000_000_000 + chance.randrange(10**9), headers)


def fields(message):
    kind, ms = message.timestamp()  # kind 0 means no timestamp; the number then has no meaning
    return (message.offset(), message.key(), message.value(), (kind, ms if kind else None), message.headers())


def delivered(factory, cluster, store, position, count, **properties):
    fetchers = factory(config_of(cluster, **properties), store)
    try:
        fetcher = fetchers.fetcher()
        fetcher.assign(position)
        return {one: list(map(fields, got)) for one, got in fetch(fetcher, count).messages.items()}
    finally:
        fetchers.close()


@on_every_broker
def test_both_fetchers_deliver_the_same_of_every_format_and_codec(cluster, store):
    topics = {}
    for magic in FORMATS[cluster.version]:
        for codec in ("none", *CODECS[cluster.version]):
            if codec == "zstd" and magic < 2:
                continue
            config = {"message_format_version": FORMAT_VERSIONS[magic]} if len(FORMATS[cluster.version]) > 1 else {}
            topic = cluster.new_topic(**config)
            cluster.produce(topic, records(magic, f"{magic}{codec}"), compression_type=codec, linger_ms=20)
            topics[topic] = f"format {magic}, {codec}"
    for begin in (0, COUNT // 3):
        wanted = {tp(topic): begin for topic in topics}
        count = len(wanted) * (COUNT - begin)
        theirs = delivered(LibrdkafkaFetchers, cluster, store, wanted, count)
        ours = delivered(ColumnarFetchers, cluster, store, wanted, count)
        for topic, name in topics.items():
            assert ours[tp(topic)] == theirs[tp(topic)], name
            assert [row[0] for row in ours[tp(topic)]] == list(range(begin, COUNT)), name


@on_every_broker
def test_both_fetchers_deliver_the_messages_of_kafkas_own_producer_of_that_version(cluster, store):
    topics = {cluster.new_topic(): codec for codec in ("none", *CODECS[cluster.version])}
    pairs = [word for pair in topics.items() for word in pair]
    brief = ("-XX:TieredStopAtLevel=1",)  # the JVM runs for a second
    command = cluster.kafka.java_command(str(PRODUCE), cluster.kafka.bootstrap_servers, str(COUNT), *pairs, flags=brief)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-3000:]
    written = [
        (n, None if n % 5 == 0 else b"k%d" % n, None if n % 7 == 0 else b"v%d " % n * (n % 40)) for n in range(COUNT)
    ]
    wanted = {tp(topic): 0 for topic in topics}
    theirs = delivered(LibrdkafkaFetchers, cluster, store, wanted, len(wanted) * COUNT)
    ours = delivered(ColumnarFetchers, cluster, store, wanted, len(wanted) * COUNT)
    for topic, codec in topics.items():
        assert [row[:3] for row in theirs[tp(topic)]] == written, codec
        assert ours[tp(topic)] == theirs[tp(topic)], codec


@pytest.mark.parametrize("broker_version", ["1.1.1", "3.9.1"])
def test_readers_of_committed_messages_get_no_others_from_either(cluster, store):
    topic = cluster.new_topic()
    producer = Producer({**cluster.producer_settings, "transactional.id": f"tx-{topic}"})
    producer.init_transactions(30)
    for number in range(12):
        producer.begin_transaction()
        for _ in range(20):
            producer.produce(topic, b"%d" % number, partition=0)
        if number % 3 == 1:
            producer.flush(10)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    cluster.produce(topic, [Record(None, b"last", 0)])
    committed = [b"%d" % n for n in range(12) if n % 3 != 1 for _ in range(20)]
    all_there_is = [b"%d" % n for n in range(12) for _ in range(20)]
    for level, values in (("read_committed", committed), ("read_uncommitted", all_there_is)):
        got = [
            delivered(factory, cluster, store, {tp(topic): 0}, len(values) + 1, isolation_level=level)[tp(topic)]
            for factory in (LibrdkafkaFetchers, ColumnarFetchers)
        ]
        assert got[0] == got[1]
        assert [row[2] for row in got[1]] == [*values, b"last"]


@pytest.mark.parametrize("broker_version", ["1.1.1", "3.9.1"])
@pytest.mark.parametrize("factory", [LibrdkafkaFetchers, ColumnarFetchers], ids=["librdkafka", "columnar"])
@pytest.mark.parametrize("is_abort", [False, True], ids=["committed", "aborted"])
def test_a_reader_stands_at_the_end_of_a_log_that_ends_with_a_transaction(cluster, store, factory, is_abort):
    topic = cluster.new_topic()
    producer = Producer({**cluster.producer_settings, "transactional.id": f"tx-{topic}"})
    producer.init_transactions(30)
    fetchers = factory(config_of(cluster, isolation_level="read_committed"), store)
    try:
        fetcher = fetchers.fetcher()
        fetcher.assign({tp(topic): 0})
        positions = {}
        for number in range(3):
            producer.begin_transaction()
            producer.produce(topic, b"v", partition=0)
            producer.flush(10)
            if number and is_abort:
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)
            # the transaction's end comes alone: no message follows it, and an aborted transaction delivers none
            end = 2 * (number + 1)
            eventually(lambda end=end: at_end(fetcher, positions) == end)
        assert fetchers.log_offsets().latest([tp(topic)]) == positions
    finally:
        fetchers.close()


@pytest.mark.parametrize("broker_version", ["1.1.1", "3.9.1"])
@pytest.mark.parametrize("factory", [LibrdkafkaFetchers, ColumnarFetchers], ids=["librdkafka", "columnar"])
def test_to_a_reader_of_committed_messages_a_log_ends_where_its_first_open_transaction_begins(cluster, store, factory):
    """The reader's position ends there, too. Regression: with librdkafka a lag before an open transaction stayed."""
    topic = cluster.new_topic()
    cluster.produce(topic, [Record(None, b"before", 0)])
    producer = Producer({**cluster.producer_settings, "transactional.id": f"tx-{topic}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(10)
    ends = {}
    for level in ("read_committed", "read_uncommitted"):
        fetchers = factory(config_of(cluster, isolation_level=level), store)
        try:
            ends[level] = fetchers.log_offsets().latest([tp(topic)])[tp(topic)]
        finally:
            fetchers.close()
    producer.abort_transaction(30)
    assert ends == {"read_committed": 1, "read_uncommitted": 2}


WRITERS, WRITTEN = 4, 10_000


@pytest.mark.parametrize("broker_version", ["2.8.2"])
@pytest.mark.parametrize("factory", [LibrdkafkaFetchers, ColumnarFetchers], ids=["librdkafka", "columnar"])
def test_a_reader_of_committed_messages_gets_all_that_producers_without_transactions_write_meanwhile(
    cluster, store, factory
):
    """A broker of this version first notes where the first open transaction begins, and then reads a log that may grow.

    A few of its responses therefore hold messages at or behind the offset that they name, also without transactions.
    """
    topic = cluster.new_topic()
    acknowledged = []

    def note(error, message):
        if error is None:
            acknowledged.append((message.offset(), message.value()))

    def write(writer):
        producer = Producer({**cluster.producer_settings, "linger.ms": 0, "batch.num.messages": 2})
        for number in range(WRITTEN):
            producer.produce(topic, b"%d %d" % (writer, number), partition=0, on_delivery=note)
            if number % 20 == 0:
                producer.poll(0.001)
        assert producer.flush(60) == 0

    fetchers = factory(config_of(cluster, isolation_level="read_committed"), store)
    try:
        fetcher = fetchers.fetcher()
        fetcher.assign({tp(topic): 0})
        with ThreadPoolExecutor(WRITERS) as writers:
            writing = [writers.submit(write, writer) for writer in range(WRITERS)]
            fetched = fetch(
                fetcher,
                WRITERS * WRITTEN,
                until=lambda so_far: so_far.positions.get(tp(topic), 0) >= WRITERS * WRITTEN,
                max_messages=10_000,
            )
            for one in writing:
                one.result()
    finally:
        fetchers.close()
    assert len(acknowledged) == WRITERS * WRITTEN
    assert [(one.offset(), one.value()) for one in fetched.messages[tp(topic)]] == sorted(acknowledged)


def at_end(fetcher, positions):
    batch = fetcher.poll(100, 0.2)
    positions.update(batch.next_offsets if batch is not None else {})
    return max(positions.values(), default=None)


# Start positions, and what follows them: every version, both fetchers


@pytest.fixture(params=[LibrdkafkaFetchers, ColumnarFetchers], ids=["librdkafka", "columnar"])
def factory(request):
    return request.param


@pytest.fixture
def fetchers(factory, cluster, store):
    made = factory(config_of(cluster, auto_offset_reset="smallest"), store)
    yield made
    made.close()


def partitions_of(topic, count):
    return [tp(topic)._replace(partition=number) for number in range(count)]


@on_every_broker
def test_log_ends_are_found_and_messages_come_from_any_position_on(cluster, fetchers):
    topic = cluster.new_topic(partitions=4)
    parts = partitions_of(topic, 5)
    cluster.produce(topic, [Record(b"k%d" % n, b"v%d" % n, n % 3) for n in range(900)])
    lookup, fetcher = fetchers.log_offsets(), fetchers.fetcher()
    ends = {**dict.fromkeys(parts[:3], 300), parts[3]: 0}
    assert lookup.latest(parts) == ends, "the fifth does not exist"
    assert lookup.earliest(parts) == dict.fromkeys(parts[:4], 0)
    fetcher.assign({parts[0]: 290, parts[1]: EARLIEST, parts[2]: LATEST, parts[3]: EARLIEST})
    got = fetch(fetcher, 0, until=lambda f: f.count >= 310 and len(f.positions) == 4)
    assert got.positions == ends
    assert got.offsets(parts[0]) == list(range(290, 300))
    assert [(m.offset(), m.key(), m.value()) for m in got.messages[parts[1]]] == [
        (n, b"k%d" % (3 * n + 1), b"v%d" % (3 * n + 1)) for n in range(300)
    ]


@on_every_broker
def test_a_log_that_grows_is_followed_and_positions_that_move_with_it_are_exact(cluster, fetchers):
    """From 1.1 on the fetcher uses fetch sessions: partitions come, go, and for a while have no news."""
    topic = cluster.new_topic(partitions=3)
    parts = partitions_of(topic, 3)
    fetcher = fetchers.fetcher()
    fetcher.assign(dict.fromkeys(parts, 0))
    got, produced = Fetched(), 0
    for round_ in range(6):
        cluster.produce(topic, [Record(None, b"%d" % round_, round_ % 3)] * 10)
        produced += 10
        while got.count < produced:
            poll_into(got, fetcher)
    assert [got.offsets(one) for one in parts] == [list(range(20))] * 3
    fetcher.unassign(parts[1:])
    fetcher.assign({parts[0]: 5})
    assert fetch(fetcher, 15).offsets(parts[0]) == list(range(5, 20))
    cluster.produce(topic, [Record(None, b"not asked for", 1), Record(None, b"asked for", 0)])
    rest = fetch(fetcher, 1)
    assert [m.value() for m in rest.messages[parts[0]]] == [b"asked for"]
    assert is_silent(fetcher, 0.2)


@pytest.mark.usefixtures("_lone_broker")
@on_every_broker
def test_a_position_outside_the_log_is_reset_and_others_flow(cluster, fetchers, caplog):
    topic = cluster.new_topic(partitions=2)
    outside, other = partitions_of(topic, 2)
    cluster.produce(topic, [Record(None, b"%d" % n, n % 2) for n in range(40)])
    fetcher = fetchers.fetcher()
    with caplog.at_level(logging.WARNING):
        fetcher.assign({outside: 999, other: 0})
        got = fetch(fetcher, 40)
    assert {outside: 0} in got.moves
    assert (got.offsets(outside), got.offsets(other)) == (list(range(20)), list(range(20)))
    assert f"{topic}/0: offset 999 is outside the log, which holds 0 to 20; going to 0, by" in caplog.text


@on_every_broker
def test_a_topic_that_is_created_later_is_read_from_then_on(cluster, fetchers):
    """A fetcher's request does not create the topic, except librdkafka's on brokers that cannot be told not to."""
    there, later = cluster.new_topic(), f"later-{random.Random().getrandbits(40):x}"
    fetcher = fetchers.fetcher()
    fetcher.assign({tp(later): 0, tp(there): 0})
    cluster.produce(there, [Record(None, b"x", 0)])
    assert fetch(fetcher, 1).positions == {tp(there): 1}
    try:
        cluster.kafka.create_topic(later)
    except NodeExistsError:
        assert (type(fetcher), cluster.version) in {(LibrdkafkaFetcher, "0.8.2.2"), (LibrdkafkaFetcher, "0.10.2.2")}
        eventually(lambda: later in cluster.topics())
    cluster.produce(later, [Record(None, b"y", 0)])
    assert fetch(fetcher, 1).positions == {tp(later): 1}


@pytest.mark.parametrize("broker_version", ["1.1.1"])
@pytest.mark.parametrize("magic", FORMATS["1.1.1"])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_nothing_behind_damaged_records_comes_until_they_are_sound_and_then_each_message_once(
    cluster, fetchers, magic, codec
):
    topic = cluster.new_topic(message_format_version=FORMAT_VERSIONS[magic])
    for _ in range(2):
        cluster.produce(topic, (Record(None, b"v", 0) for _ in range(50)), compression_type=codec, linger_ms=100)
    segment = cluster.kafka.brokers[0].data_folder / f"{topic}-0" / f"{0:020}.log"
    data = segment.read_bytes()
    spoilt = next(entry for entry in read_entries(data, segment.name) if entry.last_offset >= 40)
    last = spoilt.position + spoilt.size - 1
    write_byte(segment, last, data[last] ^ 0xFF)
    got = Fetched()
    fetcher = fetchers.fetcher()
    fetcher.assign({tp(topic): 30})
    for _ in range(3):
        with pytest.raises(FetchError):  # noqa: PT012 - until it comes
            while True:
                poll_into(got, fetcher)
    # a damaged batch, or damaged messages that were compressed together, deliver nothing
    before = list(range(30, 40)) if spoilt.base_offset == 40 else []
    assert got.offsets(tp(topic)) == before
    # librdkafka may request an offset that it read from damaged bytes; then the fetcher reports its position again
    assert got.positions.get(tp(topic), 30) == (40 if before else 30)
    write_byte(segment, last, data[last])

    def has_all():
        with contextlib.suppress(FetchError):
            poll_into(got, fetcher)
        return got.positions.get(tp(topic)) == 100

    eventually(has_all)
    assert got.offsets(tp(topic)) == list(range(30, 100))


def write_byte(path, at, byte):
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes([byte]))
