"""Groups as a table, over an in-memory store that counts the batches of reads."""

from __future__ import annotations

import pytest

from legacy_consumer.operations.admin.group_list import list_groups
from legacy_consumer.operations.admin.group_table import GroupPartition, read_group_partitions
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper


class CountingStore(MemoryStore):
    """Counts batches of reads, refuses reads of single znodes, and records the paths that were read."""

    def __init__(self, server):
        super().__init__(server)
        self.batches = 0
        self.paths = []

    def get_data_many(self, paths, watcher=None):
        self.batches += 1
        self.paths += paths
        return super().get_data_many(paths, watcher)

    def get_children_many(self, paths):
        self.batches += 1
        self.paths += paths
        return super().get_children_many(paths)


@pytest.fixture
def server():
    return MemoryZooKeeper()


@pytest.fixture
def store(server):
    made = CountingStore(server)
    made.start()
    yield made
    made.close()


def put(store, path, data=None):
    store.create(path, data, make_parents=True)


def commit(store, group, topic, partition, offset):
    put(store, f"/consumers/{group}/offsets/{topic}/{partition}", str(offset).encode())


def own(store, group, topic, partition, owner):
    put(store, f"/consumers/{group}/owners/{topic}/{partition}", owner.encode())


def register(store, group, consumer_id, subscription, pattern="static"):
    data = f'{{"version":1,"subscription":{subscription},"pattern":"{pattern}","timestamp":"1"}}'
    put(store, f"/consumers/{group}/ids/{consumer_id}", data.encode())


def make_topic(store, topic, partitions):
    listed = ",".join(f'"{n}":[0]' for n in range(partitions))
    put(store, f"/brokers/topics/{topic}", f'{{"version":1,"partitions":{{{listed}}}}}'.encode())


def brief(rows):
    return [(row.group, row.topic, row.partition, row.committed, row.owner) for row in rows]


def test_without_consumers_there_is_no_group(store):
    assert list_groups(store) == ()
    assert read_group_partitions(store, ["g"]) == []


def test_all_groups_that_ever_were_are_listed(store):
    put(store, "/consumers/b/ids")
    put(store, "/consumers/a")
    assert list_groups(store) == ("a", "b")


def test_offsets_and_owners_meet_in_one_row_and_partitions_sort_as_numbers(store):
    commit(store, "g", "t", 10, 7)
    commit(store, "g", "t", 2, 5)
    own(store, "g", "t", 2, "g_c-0")
    own(store, "g", "s", 0, "g_c-1")
    assert brief(read_group_partitions(store, ["g"])) == [
        ("g", "s", 0, None, "g_c-1"),
        ("g", "t", 2, 5, "g_c-0"),
        ("g", "t", 10, 7, None),
    ]


def test_a_row_says_when_it_was_committed_and_since_when_it_is_owned(store):
    commit(store, "g", "t", 0, 7)
    own(store, "g", "t", 0, "g_c-0")
    store.set_data("/consumers/g/offsets/t/0", b"8")
    [row] = read_group_partitions(store, ["g"])
    assert row.committed == 8
    assert row.committed_at_ms == store.get_data("/consumers/g/offsets/t/0").stat.mtime_ms
    assert row.owned_since_ms == store.get_data("/consumers/g/owners/t/0").stat.ctime_ms


def test_a_committed_minus_one_means_no_offset(store):
    commit(store, "g", "t", 0, -1)
    [row] = read_group_partitions(store, ["g"])
    assert row.committed is None
    assert row.committed_at_ms is not None
    assert row.error is None


@pytest.mark.parametrize("data", [b"", b"12\n", b"many", b"99999999999999999999"])
def test_a_malformed_offset_is_the_error_of_its_row_alone(store, data):
    put(store, "/consumers/g/offsets/t/0", data)
    commit(store, "g", "t", 1, 3)
    bad, good = read_group_partitions(store, ["g"])
    assert bad.committed is None
    assert bad.error.startswith("/consumers/g/offsets/t/0 holds ")
    assert "decimal number" in bad.error
    assert (good.committed, good.error) == (3, None)


def test_an_owner_without_thread_number_is_shown_as_it_is_with_the_reason(store):
    own(store, "g", "t", 0, "pykafka")
    put(store, "/consumers/g/owners/t/1", b"\xff-0")
    named, undecodable = read_group_partitions(store, ["g"])
    assert named.owner == "pykafka"
    assert named.error.startswith("/consumers/g/owners/t/0 holds b'pykafka': an owner is <consumer id>-<thread number>")
    assert undecodable.owner == "\\xff-0"
    assert undecodable.error


def test_names_that_are_no_partitions_are_logged_and_left_out(store, caplog):
    for name in ("0-1", "01", "x", "99999999999", "9" * 5000, "٣"):
        put(store, f"/consumers/g/offsets/t/{name}", b"1")
    commit(store, "g", "t", 0, 1)
    assert brief(read_group_partitions(store, ["g"])) == [("g", "t", 0, 1, None)]
    [record] = caplog.records
    assert "6 names are no partition numbers" in record.getMessage()


def test_a_name_of_thousands_of_digits_is_no_partition_and_hides_no_other(store, caplog):
    """int() refuses so many digits, and the error ended every command about all groups, and each refresh of metrics."""
    put(store, f"/consumers/g/offsets/t/{'1' * 5000}", b"1")
    put(store, f"/consumers/g/owners/t/{'2' * 5000}", b"g_a-0")
    commit(store, "g", "t", 0, 1)
    assert brief(read_group_partitions(store, ["g"])) == [("g", "t", 0, 1, None)]
    assert all("1 names are no partition numbers" in record.getMessage() for record in caplog.records)


def test_pruned_groups_topics_and_partitions_are_never_read(store):
    for group in ("g", "h"):
        for topic in ("t", "u"):
            for partition in range(3):
                commit(store, group, topic, partition, 1)
    rows = read_group_partitions(store, ["g"], topics=lambda t: t == "u", partitions=lambda p: p != 1)
    assert brief(rows) == [("g", "u", 0, 1, None), ("g", "u", 2, 1, None)]
    assert not [path for path in store.paths if path.startswith("/consumers/h")]
    assert not [path for path in store.paths if path.endswith("/t") or "/t/" in path]
    assert "/consumers/g/offsets/u/1" not in store.paths


@pytest.mark.parametrize("unclaimed", [False, True])
def test_the_number_of_batches_does_not_depend_on_the_number_of_groups(store, unclaimed):
    make_topic(store, "t", 4)

    def batches(first, count):
        names = [f"g{n}" for n in range(first, first + count)]
        for name in names:
            commit(store, name, "t", 0, 1)
            own(store, name, "t", 1, f"{name}_c-0")
            register(store, name, f"{name}_c", '{"t":1}')
        store.batches = 0
        rows = read_group_partitions(store, names, include_unclaimed=unclaimed)
        assert len(rows) == count * (4 if unclaimed else 2)
        return store.batches

    assert batches(0, 1) == batches(100, 50) == (6 if unclaimed else 4)


def test_unclaimed_partitions_come_from_subscriptions_and_from_directories(store):
    for topic in ("sub", "wild-1", "left", "none"):
        make_topic(store, topic, 2)
    register(store, "g", "g_a", '{"sub":1,"missing":1}')
    register(store, "g", "g_b", '{"wild.*":1}', "white_list")
    put(store, "/consumers/g/ids/g_garbage", b"garbage")
    register(store, "g", "g_odd", '{"":1,"a/b":1,"..":1}')
    put(store, "/consumers/g/owners/left")
    commit(store, "g", "sub", 1, 9)
    rows = read_group_partitions(store, ["g"], include_unclaimed=True)
    assert brief(rows) == [
        ("g", "left", 0, None, None),
        ("g", "left", 1, None, None),
        ("g", "sub", 0, None, None),
        ("g", "sub", 1, 9, None),
        ("g", "wild-1", 0, None, None),
        ("g", "wild-1", 1, None, None),
    ]
    pruned = read_group_partitions(store, ["g"], include_unclaimed=True, topics=lambda t: t == "sub")
    assert [row.topic for row in pruned] == ["sub", "sub"]


def test_a_row_cannot_be_changed():
    row = GroupPartition("g", "t", 0)
    with pytest.raises(AttributeError):
        row.committed = 5
