"""One group described, and one deleted, over the in-memory store."""

from __future__ import annotations

import pytest

from legacy_consumer.errors import ActiveGroupError, BrokersUnavailableError, NoSuchGroupError
from legacy_consumer.operations.admin.deletion import delete_group
from legacy_consumer.operations.admin.errors import GroupChangedError
from legacy_consumer.operations.admin.groups import GroupMember, describe_group
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicPartition


class Logs:
    """Ends of logs: {topic: end}; None stands for brokers that cannot be asked."""

    def __init__(self, ends):
        self.ends = ends

    def latest(self, partitions):
        if self.ends is None:
            raise BrokersUnavailableError("no broker is registered")
        return {tp: self.ends[tp.topic] for tp in partitions if tp.topic in self.ends}

    def earliest(self, partitions):
        return {tp: 0 for tp in partitions if tp.topic in self.ends}


class Clock:
    def __init__(self, now_ms):
        self.now_ms = now_ms

    def wall_ms(self):
        return self.now_ms


@pytest.fixture
def server():
    return MemoryZooKeeper()


@pytest.fixture
def store(server):
    made = MemoryStore(server)
    made.start()
    yield made
    made.close()


def put(store, path, data=None):
    store.create(path, data, make_parents=True)


def register(store, consumer_id, subscription, pattern="static"):
    data = f'{{"version":1,"subscription":{subscription},"pattern":"{pattern}","timestamp":"1"}}'
    put(store, f"/consumers/g/ids/{consumer_id}", data.encode())


def make_topic(store, topic, partitions):
    listed = ",".join(f'"{n}":[0]' for n in range(partitions))
    put(store, f"/brokers/topics/{topic}", f'{{"version":1,"partitions":{{{listed}}}}}'.encode())


def test_a_group_without_any_znode_does_not_exist(store):
    with pytest.raises(NoSuchGroupError, match="group 'g' does not exist"):
        describe_group(store, Logs({}), "g")


def test_a_group_with_nothing_in_it_exists(store):
    put(store, "/consumers/g")
    found = describe_group(store, Logs(None), "g")
    assert (found.members, found.unreadable, found.partitions, found.total_lag) == ((), (), (), 0)
    assert found.no_log_ends is None, "nobody had to be asked"


def test_lag_is_the_end_less_the_committed_offset_if_both_are_known(store):
    make_topic(store, "t", 3)
    put(store, "/consumers/g/offsets/t/0", b"5")
    put(store, "/consumers/g/offsets/t/1", b"-1")
    put(store, "/consumers/g/offsets/unknown/0", b"5")
    put(store, "/consumers/g/offsets/ahead/0", b"9")
    found = describe_group(store, Logs({"t": 12, "ahead": 7}), "g")
    assert [(row.topic, row.partition, row.committed, row.log_end, row.lag) for row in found.partitions] == [
        ("ahead", 0, 9, 7, -2),
        ("t", 0, 5, 12, 7),
        ("t", 1, None, 12, None),
        ("t", 2, None, 12, None),
        ("unknown", 0, 5, None, None),
    ]
    assert found.total_lag == 7, "an offset beyond the end takes nothing off the others' lag"


@pytest.mark.parametrize("data", [b"7", b"seven", b""])
@pytest.mark.parametrize("topic", ["left", "gone"])
def test_a_deleted_topic_or_one_that_all_members_left_counts_nowhere_with_any_znodes(store, topic, data):
    make_topic(store, "t", 1)
    make_topic(store, "left", 1)
    register(store, "a", '{"t":1}')
    put(store, "/consumers/g/owners/t/0", b"a-0")
    put(store, "/consumers/g/offsets/t/0", b"5")
    put(store, f"/consumers/g/offsets/{topic}/0", data)
    put(store, f"/consumers/g/owners/{topic}/0", data)
    found = describe_group(store, Logs({"t": 9, "left": 100}), "g")
    assert [tp.topic for tp in found.left] == [topic]
    assert [(row.topic, row.error) for row in found.consumed] == [("t", None)]
    assert (found.total_lag, found.unowned) == (4, 0)


def test_a_partition_that_its_topic_does_not_have_counts_nowhere(store):
    make_topic(store, "t", 1)
    register(store, "a", '{"t":1}')
    put(store, "/consumers/g/owners/t/0", b"a-0")
    put(store, "/consumers/g/offsets/t/0", b"5")
    put(store, "/consumers/g/offsets/t/7", b"12")
    found = describe_group(store, Logs({"t": 9}), "g")
    assert found.left == found.gone == {TopicPartition("t", 7)}
    assert (found.total_lag, found.unowned) == (4, 0)


def test_the_age_of_a_commit_is_never_below_zero(store):
    put(store, "/consumers/g/offsets/t/0", b"5")
    written_ms = store.get_data("/consumers/g/offsets/t/0").stat.mtime_ms
    for now_ms, age_ms in ((written_ms + 1500, 1500), (written_ms - 1500, 0)):
        [row] = describe_group(store, Logs({}), "g", clock=Clock(now_ms)).partitions
        assert (row.committed_at_ms, row.committed_age_ms) == (written_ms, age_ms)


def test_brokers_that_cannot_be_asked_leave_the_lag_open_and_say_why(store):
    put(store, "/consumers/g/offsets/t/0", b"5")
    found = describe_group(store, Logs(None), "g")
    assert found.no_log_ends == "no broker is registered"
    assert [(row.committed, row.log_end, row.lag) for row in found.partitions] == [(5, None, None)]


def test_members_are_described_by_subscription_threads_and_partitions(store):
    make_topic(store, "t", 3)
    register(store, "g_a", '{"t":2,"u":1}')
    register(store, "g_b", '{"t|x":4,"ignored":9}', "white_list")
    for partition, owner in enumerate((b"g_a-0", b"g_a-1", b"g_gone-0")):
        put(store, f"/consumers/g/owners/t/{partition}", owner)
    found = describe_group(store, Logs({}), "g")
    joined = [store.get_data(f"/consumers/g/ids/{name}").stat.ctime_ms for name in ("g_a", "g_b")]
    by = ("range", "roundrobin 0.10.2", "roundrobin 1.0")
    assert found.members == (
        GroupMember("g_a", "static", (("t", 2), ("u", 1)), 3, 2, joined[0], "Kafka 0.8.1+", by),
        GroupMember("g_b", "white_list", (("t|x", 4),), 4, 0, joined[1], "Kafka 0.8.1+"),
    )
    assert [row.owner_is_member for row in found.partitions] == [True, True, False]
    assert found.unowned == 1


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"garbage", "pykafka registers"), (b"", "kafka-node"), (b"[1]", "JSON object"), (None, "empty")],
)
def test_a_registration_that_cannot_be_read_is_listed_with_its_reason(store, data, reason):
    register(store, "g_a", '{"t":1}')
    put(store, "/consumers/g/ids/g_bad", data)
    found = describe_group(store, Logs({}), "g")
    assert [member.consumer_id for member in found.members] == ["g_a"]
    [bad] = found.unreadable
    assert bad.consumer_id == "g_bad"
    assert bad.problem.startswith("/consumers/g/ids/g_bad")
    assert reason in bad.problem


def test_a_filter_that_does_not_compile_is_unreadable_too(store):
    register(store, "g_bad", '{"a(b":1}', "white_list")
    [bad] = describe_group(store, Logs({}), "g").unreadable
    assert bad.problem.startswith("/consumers/g/ids/g_bad: topic filter 'a(b': ")


def test_a_group_is_deleted_with_all_that_is_below_it(store):
    for topic in range(30):
        for partition in range(20):
            put(store, f"/consumers/g/offsets/t{topic}/{partition}", b"1")
    put(store, "/consumers/g/ids")
    put(store, "/consumers/other/offsets/t/0", b"1")
    assert delete_group(store, "g")
    assert store.get_children("/consumers") == ("other",)
    assert store.exists("/consumers/other/offsets/t/0") is not None


def test_to_delete_a_group_that_is_not_there_is_no_error(store):
    assert not delete_group(store, "g")


def test_a_group_with_members_is_not_deleted(store):
    put(store, "/consumers/g/ids/g_garbage", b"?")
    put(store, "/consumers/g/offsets/t/0", b"1")
    with pytest.raises(ActiveGroupError, match=r"has 1 member: stop it first \(g_garbage\)"):
        delete_group(store, "g")
    assert store.exists("/consumers/g/offsets/t/0") is not None


def test_a_znode_that_another_client_deletes_meanwhile_is_no_error(store, monkeypatch):
    put(store, "/consumers/g/offsets/t/0", b"1")
    put(store, "/consumers/g/offsets/t/1", b"1")
    real, rivals = store.multi, [lambda: store.delete("/consumers/g/offsets/t/0")]

    def multi(ops, **options):
        if rivals:
            rivals.pop()()
        return real(ops, **options)

    monkeypatch.setattr(store, "multi", multi)
    assert delete_group(store, "g")
    assert store.exists("/consumers/g") is None


def test_a_client_that_keeps_on_writing_is_reported(store, monkeypatch):
    put(store, "/consumers/g/offsets/t/0", b"1")
    real, count = store.multi, iter(range(100))

    def multi(ops, **options):
        put(store, f"/consumers/g/offsets/new{next(count)}/0", b"1")
        return real(ops, **options)

    monkeypatch.setattr(store, "multi", multi)
    with pytest.raises(GroupChangedError, match=r"wrote /consumers/g/offsets/new0 .* deleted nothing of it"):
        delete_group(store, "g")
    assert store.exists("/consumers/g/offsets/t/0") is not None
