"""The ranges of tasks, and the Arrow batches that tasks make of their messages."""

import json

import pytest
from confluent_kafka import KafkaError, Message

from legacy_consumer.fetching.columnar.batch import ColumnarBatch
from legacy_consumer.fetching.columnar.records import decode_records
from legacy_consumer.fetching.columnar.settings import FetchSettings
from spark_source.errors import RangeReadError
from spark_source.messages import columnar_reader, message_arrays, reader
from spark_source.messages.batch import plan_tasks
from spark_source.messages.columns import request_message_columns
from spark_source.messages.message_arrays import MessageArrays
from spark_source.messages.options import parse_message_options
from spark_source.messages.planned_znodes import PlannedStore, read_znodes
from spark_source.messages.ranges import OffsetRange
from spark_source.messages.reader import _Reading
from tests.support.memory_cluster import GuardedStore
from tests.support.record_encoder import Written, batch
from zk_layout.codecs import decode_topic
from zk_layout.errors import ConnectionLostError, NotPermittedError
from zk_layout.memory_store import MemoryZooKeeper
from zk_layout.model import TopicPartition
from zk_layout.paths import BrokerIdPath, PartitionStatePath, TopicPath

A = TopicPartition("t", 0)


class CountedZnodes(dict):
    """A dict that counts its iterations."""

    times = 0

    def items(self):
        self.times += 1
        return super().items()

    def __iter__(self):
        self.times += 1
        return super().__iter__()


def test_a_plan_of_many_partitions_goes_through_the_znodes_once():
    options = parse_message_options({"zookeeper.connect": "h:1", "topics": "t"})
    partitions = [TopicPartition("t", number) for number in range(1000)]
    brokers = {BrokerIdPath(0).path: b"broker"}
    znodes = CountedZnodes({**brokers, **{PartitionStatePath(*tp).path: json.dumps(tp).encode() for tp in partitions}})
    tasks = plan_tasks(options, [OffsetRange(tp, 0, 5) for tp in partitions], znodes)
    assert [task.wanted.partition for task in tasks] == partitions
    for task in tasks:
        own = PartitionStatePath(*task.wanted.partition).path
        assert task.znodes == {**brokers, own: znodes[own]}
    assert znodes.times == 1


def test_a_task_knows_the_topics_of_its_partitions_also_of_one_without_a_state_and_asks_for_no_other():
    partitions = [TopicPartition("t", 0), TopicPartition("t", 12)]
    store = PlannedStore({BrokerIdPath(0).path: b"broker", PartitionStatePath("t", 0).path: b"{}"}, partitions)
    [topic] = store.get_data_many([TopicPath("t").path])
    assert sorted(decode_topic(TopicPath("t").path, topic.data).partitions) == [0, 12]
    with pytest.raises(ConnectionLostError):
        store.get_data_many([TopicPath("u").path])


def test_a_broker_whose_registration_an_acl_closes_is_left_out_of_a_plan_and_a_closed_partition_is_an_error():
    server, state, closed = MemoryZooKeeper(), PartitionStatePath(*A).path, []
    store = GuardedStore(server, closed)
    store.start()
    paths = [BrokerIdPath(0).path, BrokerIdPath(1).path, state]
    for path in paths:
        store.create(path, b"{}", make_parents=True)
    assert list(read_znodes(store, [A])) == paths
    closed.append(paths[1])
    assert list(read_znodes(store, [A])) == [paths[0], state]
    closed.append(state)
    with pytest.raises(NotPermittedError, match=state):
        read_znodes(store, [A])


class Sized:
    """A message with only the parts whose sizes count."""

    def __init__(self, value=b"v", key=None, headers=None):
        self._value, self._key, self._headers = value, key, headers

    def value(self):
        return self._value

    def key(self):
        return self._key

    def headers(self):
        return self._headers


def test_headers_count_in_the_size_of_a_batch():
    columns = request_message_columns(
        [("value", "binary", True), ("headers", "array<struct<key:string,value:binary>>", True)]
    )
    arrays = MessageArrays(A, columns)
    arrays.add([Sized(headers=[("key", b"x" * 1000), ("none", None)]), Sized()])
    assert arrays.bytes == 2 + len("key") + 1000 + len("none")
    assert arrays.batch().num_rows == 2


@pytest.mark.parametrize("large", [{"value": b"x" * 60}, {"key": b"x" * 60}, {"headers": [("k", b"x" * 60)]}])
def test_messages_that_are_too_many_bytes_for_one_batch_become_several(monkeypatch, large):
    monkeypatch.setattr(message_arrays, "MOST_BATCH_BYTES", 100)
    columns = request_message_columns([("headers", "array<struct<key:string,value:binary>>", True)])
    arrays = MessageArrays(A, columns)
    small, two = [Sized()] * 20, [Sized(**large)] * 2
    assert [list(portion) for portion in arrays.portions(small)] == [small]
    assert [list(portion) for portion in arrays.portions(two)] == [two[:1], two[1:]]


class Queue:
    """A consumer handle of librdkafka whose queue holds these messages."""

    def __init__(self, *messages):
        self._messages = list(messages)

    def consume(self, max_messages, timeout_s):
        taken, self._messages = self._messages[:max_messages], self._messages[max_messages:]
        return taken


def test_an_end_of_the_log_that_comes_along_with_messages_ends_a_range_that_has_none_at_its_end():
    # librdkafka reports the end of a log only once; offset 3 is the end of a transaction
    messages = [Message(topic="t", partition=0, offset=n, value=b"x") for n in range(3)]
    end = Message(topic="t", partition=0, offset=4, error=KafkaError(KafkaError._PARTITION_EOF))
    reading = _Reading(Queue(*messages, end), OffsetRange(A, 0, 4), 60.0)
    assert [message.offset() for message in reading.next_messages()] == [0, 1, 2]
    assert reading.is_done


class Quiet(Queue):
    """A queue and its clock: once the queue is empty, each consume() moves the clock on by its time limit."""

    brokers_down = False

    def __init__(self, *messages):
        super().__init__(*messages)
        self.now = 0.0

    def monotonic(self):
        return self.now

    def consume(self, max_messages, timeout_s):
        taken = super().consume(max_messages, timeout_s)
        if not taken:
            self.now += timeout_s
        return taken

    def lasting_failure(self):
        return None


def test_only_the_time_in_which_a_task_waits_for_messages_counts_and_not_that_of_the_users_code(monkeypatch):
    handle = Quiet(Message(topic="t", partition=0, offset=0, value=b"x"))
    monkeypatch.setattr(reader, "time", handle)
    reading = _Reading(handle, OffsetRange(A, 0, 4), 60.0)
    handle.now += 3600
    assert len(reading.next_messages()) == 1
    handle.now += 3600
    begin = handle.now
    while reading.failure is None:
        assert reading.next_messages() == []
    assert str(reading.failure) == "t/0: got no further than 1 of 4: no message came for 60 s"
    assert handle.now - begin == 60


class Columnar(Quiet):
    """A columnar fetcher that returns a message at every second poll, and waits in the others."""

    settings = None

    def open(self, config, store, log_offsets):
        self.settings = FetchSettings.of(config)
        return self

    def assign(self, positions):
        [self._position] = positions.values()
        self._has_answer = False

    def poll(self, max_messages, timeout_s):
        self._has_answer = not self._has_answer
        if not self._has_answer:
            self.now += timeout_s
            return None
        offset, self._position = self._position, self._position + 1
        return ColumnarBatch([decode_records(batch([Written(offset, None, b"v")]), A, offset)], {A: offset + 1})

    def close(self):
        pass


def columnar_task(monkeypatch, fetcher, **options):
    """Return a task that reads offsets 0 to 5; fetcher.rest collects the ranges that it leaves to librdkafka."""
    fetcher.rest = []
    monkeypatch.setattr(columnar_reader, "time", fetcher)
    monkeypatch.setattr(columnar_reader, "open_fetcher", fetcher.open)
    monkeypatch.setattr(columnar_reader, "open_log_offsets", lambda config, store: fetcher)
    monkeypatch.setattr(
        reader, "_read_with_librdkafka", lambda options, store, part, columns: fetcher.rest.append(part) or ()
    )
    parsed = parse_message_options({"zookeeper.connect": "h:1", "topics": "t", "fetcher": "columnar", **options})
    return reader.open_reader(parsed, {}, OffsetRange(A, 0, 6), request_message_columns([("offset", "bigint", True)]))


def test_the_time_that_the_users_code_takes_for_a_batch_is_no_silence_of_a_columnar_task(monkeypatch):
    fetcher = Columnar()
    read = columnar_task(monkeypatch, fetcher)
    for _ in read:
        fetcher.now += 3600
    assert fetcher.rest == []


@pytest.mark.parametrize(("given", "asked"), [({}, 4 << 20), ({"fetch.message.max.bytes": "65536"}, 65536)])
def test_a_columnar_task_asks_for_as_many_bytes_as_the_user_says(monkeypatch, given, asked):
    fetcher = Columnar()
    list(columnar_task(monkeypatch, fetcher, **given))
    assert fetcher.settings.bytes_of_each(1) == asked


class Librdkafka(Quiet):
    """Stands for librdkafka's consumer, for the brokers that report the log's bounds, and for the time module."""

    def __init__(self, *messages, log=(0, 100)):
        super().__init__(*messages)
        self._log = log

    def assign(self, positions):
        assert list(positions) == [A]

    def earliest(self, partitions):
        return dict.fromkeys(partitions, self._log[0])

    def latest(self, partitions):
        return dict.fromkeys(partitions, self._log[1])

    def close(self):
        pass


def message_at(offset, code=None):
    error = None if code is None else KafkaError(code, "a fault")
    return Message(topic="t", partition=0, offset=offset, value=b"x", error=error)


def offsets_read(monkeypatch, handle, end, **options):
    """Return the offsets of the rows that a task with librdkafka reads of the range from 0 to end."""
    monkeypatch.setattr(reader, "time", handle)
    monkeypatch.setattr(reader, "ConsumerHandle", lambda settings: handle)
    monkeypatch.setattr(reader, "open_log_offsets", lambda config, store: handle)
    monkeypatch.setattr(reader, "_settings", lambda config, brokers: {})
    parsed = parse_message_options({"zookeeper.connect": "h:1", "topics": "t", "fetcher": "librdkafka", **options})
    batches = reader.open_reader(
        parsed, {}, OffsetRange(A, 0, end), request_message_columns([("offset", "bigint", True)])
    )
    return [offset for batch in batches for offset in batch.column(0).to_pylist()]


FAULTS = {"corrupt": KafkaError._BAD_MSG, "outside": KafkaError._AUTO_OFFSET_RESET, "forbidden": 29}


@pytest.mark.parametrize("code", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("end", [3, 5])
def test_a_fault_behind_a_range_does_not_fail_the_task_that_has_read_the_range(monkeypatch, code, end):
    # librdkafka fetches ahead, so the fault arrives together with the messages
    handle = Librdkafka(*map(message_at, range(5)), message_at(5, code), log=(7, 100))
    assert offsets_read(monkeypatch, handle, end) == list(range(end))


def test_a_corrupt_message_in_a_range_is_named_and_not_gone_over_to_what_lies_behind_it(monkeypatch):
    behind = [*map(message_at, range(4, 10)), message_at(10, KafkaError._PARTITION_EOF)]
    handle = Librdkafka(*map(message_at, range(3)), message_at(3, KafkaError._BAD_MSG), *behind)
    with pytest.raises(RangeReadError, match="t/0: got no further than 3 of 10: a fault"):
        offsets_read(monkeypatch, handle, 10)


def test_what_was_read_of_a_range_is_in_the_rows_though_the_rest_of_it_is_given_up(monkeypatch, caplog):
    handle = Librdkafka(*map(message_at, range(3)), log=(0, 3))
    assert offsets_read(monkeypatch, handle, 5, failOnDataLoss="false") == [0, 1, 2]
    assert "lost: t/0: 2 before 5 are not there, the log holds 0 to 3" in caplog.text
