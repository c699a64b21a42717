"""The plans of one write: reads for all groups together, and whatever the znodes already hold."""

import json
from collections import Counter
from contextlib import nullcontext

import pyarrow as pa
import pytest

from spark_source import offset_write
from spark_source.errors import OffsetWriteError, SchemaMismatchError
from spark_source.offset_rows import check_batch, offset_columns
from spark_source.offset_write import CollectedRows, ZkOffsetsWriter, make_plans, write_all
from spark_source.options import parse_write_options
from zk_layout.errors import ConnectionLostError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicPartition

PARTITIONS = 3


class CountedStore:
    """A store that counts its calls by name."""

    def __init__(self, store):
        self._store = store
        self.calls = Counter()

    def __getattr__(self, name):
        def call(*given, **named):
            self.calls[name] += 1
            return getattr(self._store, name)(*given, **named)

        return call


@pytest.fixture
def store():
    store = MemoryStore(MemoryZooKeeper())
    store.start()
    store.ensure_path("/consumers")
    store.ensure_path("/brokers/topics")
    store.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1],"1":[1],"2":[1]}}')
    return store


def wanted(groups):
    return {f"g{n}": {TopicPartition("t", p): 5 for p in range(PARTITIONS)} for n in range(groups)}


def test_the_plans_of_many_groups_take_as_many_reads_as_that_of_one(store):
    calls = []
    for groups in (1, 200):
        counted = CountedStore(store)
        assert len(make_plans(counted, wanted(groups))) == groups
        calls.append(counted.calls)
    assert calls[0] == calls[1]


def test_a_backup_says_for_which_topics_its_offsets_are(store, tmp_path):
    """So that an import does not write these offsets for a later topic of the same name."""
    options = parse_write_options(
        {"zookeeper.connect": "zk:2181", "backupFolder": str(tmp_path), "outsideLog": "allow"}
    )
    writer = ZkOffsetsWriter(options, ("group", "topic", "partition", "offset"))
    writer._write(store, wanted(1))
    [file] = tmp_path.iterdir()
    [stat] = store.exists_many(["/brokers/topics/t"])
    assert json.loads(file.read_text())["topics"] == {"t": f"topic-czxid=0x{stat.czxid:x}"}


def test_each_plan_holds_the_members_of_its_own_group(store):
    for group in ("g0", "g2"):
        store.ensure_path(f"/consumers/{group}/ids")
        store.create(f"/consumers/{group}/ids/{group}_host-1-a", b"{}")
    members = {plan.group: [member.consumer_id for member in plan.members] for plan in make_plans(store, wanted(3))}
    assert members == {"g0": ["g0_host-1-a"], "g1": [], "g2": ["g2_host-1-a"]}


def test_a_backup_contains_the_bytes_of_an_unreadable_offset(store):
    store.ensure_path("/consumers/g0/offsets/t")
    store.create("/consumers/g0/offsets/t/0", b"12x")
    store.create("/consumers/g0/offsets/t/1", b"7")
    (plan,) = make_plans(store, wanted(1))
    assert plan.unreadable == {TopicPartition("t", 0): b"12x"}
    assert plan.backup == {TopicPartition("t", 1): 7, TopicPartition("t", 2): None}


def test_a_restore_names_the_offsets_that_were_unreadable(store):
    for group, partition, data in (("g0", 0, b"12x"), ("g0", 1, b"7"), ("g1", 0, b"5")):
        store.ensure_path(f"/consumers/{group}/offsets/t")
        store.create(f"/consumers/{group}/offsets/t/{partition}", data)
    plans = make_plans(store, {"g0": {TopicPartition("t", p): 9 for p in range(2)}, "g1": {TopicPartition("t", 0): 9}})
    store.set_data("/consumers/g1/offsets/t/0", b"6")
    with pytest.raises(OffsetWriteError, match=r"written but these, which are or may be written, .*: t/0 of g0; why: "):
        write_all(store, plans, force=False)
    assert [store.get_data(f"/consumers/g0/offsets/t/{p}").data for p in range(2)] == [b"9", b"7"]


@pytest.fixture
def write(store, monkeypatch):
    monkeypatch.setattr(offset_write, "connected", lambda _: nullcontext(store))

    def commit(**options):
        given = {"zookeeper.connect": "h:1", "backupFolder": "none", **options}
        writer = ZkOffsetsWriter(parse_write_options(given), ("group", "topic", "partition", "offset"))
        writer.commit([CollectedRows((("g0", "t", 0, 5),))])

    return commit


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"security.protocol": "SSL"}, "no broker offers a SSL listener, only PLAINTEXT"),
        ({"rdkafka.nosuch": "1"}, "rdkafka.nosuch: librdkafka says: No such configuration property"),
    ],
)
def test_every_error_of_a_write_says_first_that_nothing_was_written(store, write, options, reason):
    broker = b'{"version":4,"host":"h","port":1,"endpoints":["PLAINTEXT://h:1"]}'
    store.create("/brokers/ids/0", broker, make_parents=True)
    with pytest.raises(OffsetWriteError) as caught:
        write(**options)
    assert str(caught.value).startswith(f"no offset was written: {reason}")
    assert store.exists("/consumers/g0") is None


def test_a_dry_run_also_checks_that_a_backup_can_be_written(store, write, tmp_path):
    outside = {"outsideLog": "allow", "dryRun": "true"}
    with pytest.raises(OffsetWriteError, match=r"no backup can be written to .*none: No such file or directory; see"):
        write(backupFolder=str(tmp_path / "none"), **outside)
    write(backupFolder=str(tmp_path), **outside)
    assert (list(tmp_path.iterdir()), store.exists("/consumers/g0")) == ([], None)


class StruckStore(MemoryStore):
    """A store that at its at-th multi either calls `before`, or loses the answer and from then on fails all reads."""

    multis, at, before, is_away = 0, 0, None, False

    def multi(self, *given, **named):
        self.multis += 1
        if self.multis != self.at:
            return super().multi(*given, **named)
        if self.before is not None:
            self.before()
            return super().multi(*given, **named)
        super().multi(*given, **named)
        self.is_away = True
        raise ConnectionLostError("the reply was lost")

    def get_data_many(self, *given, **named):
        if self.is_away:
            raise ConnectionLostError("nothing answers")
        return super().get_data_many(*given, **named)


@pytest.fixture
def large():
    """A store with a group of 40 partitions of two topics, each at offset 5; a write to all takes several multis."""
    store = StruckStore(MemoryZooKeeper(max_multi_bytes=6000))
    store.start()
    for topic in ("t", "u"):
        partitions = ",".join(f'"{n}":[1]' for n in range(20))
        document = b'{"version":1,"partitions":{%s}}' % partitions.encode()
        store.create(f"/brokers/topics/{topic}", document, make_parents=True)
        for n in range(20):
            store.create(f"/consumers/g/offsets/{topic}/{n}", b"5", make_parents=True)
    return store


def plan_of_large(store):
    return make_plans(store, {"g": {TopicPartition(topic, n): 9 for topic in ("t", "u") for n in range(20)}})


def offsets_of_large(store):
    store.is_away = False
    paths = [f"/consumers/g/offsets/{topic}/{n}" for topic in ("t", "u") for n in range(20)]
    return [None if znode is None else int(znode.data) for znode in store.get_data_many(paths)]


def test_a_group_that_is_written_in_part_is_put_back(large):
    plans = plan_of_large(large)
    large.at = 2
    large.before = lambda: large.set_data("/consumers/g/offsets/u/19", b"77")
    with pytest.raises(OffsetWriteError) as caught:
        write_all(large, plans, force=False)
    assert str(caught.value).startswith("no offset was written: nothing was written for group 'g': another client")
    assert offsets_of_large(large) == [5] * 39 + [77]


@pytest.mark.parametrize("at", [1, 2])
def test_a_write_without_an_answer_says_which_offsets_may_be_written(large, at):
    plans = plan_of_large(large)
    large.at = at
    with pytest.raises(OffsetWriteError, match=r"^no offset was written but these.* may be .*: those of g; why: "):
        write_all(large, plans, force=False)
    assert 9 in offsets_of_large(large)


@pytest.mark.parametrize("groups", [1, 2])
def test_offsets_of_the_other_topics_are_put_back_if_a_topic_is_made_anew_under_the_write(groups):
    store = StruckStore(MemoryZooKeeper())
    store.start()
    document = b'{"version":1,"partitions":{"0":[1]}}'
    for topic in ("t", "u"):
        store.create(f"/brokers/topics/{topic}", document, make_parents=True)
    paths = [f"/consumers/g{n}/offsets/{topic}/0" for n in range(groups) for topic in ("t", "u")]
    for path in paths:
        store.create(path, b"5", make_parents=True)

    def make_anew():
        store.delete("/brokers/topics/u")
        store.create("/brokers/topics/u", document)

    plans = make_plans(store, {f"g{n}": {TopicPartition(t, 0): 9 for t in ("t", "u")} for n in range(groups)})
    store.at, store.before = 1, make_anew
    with pytest.raises(OffsetWriteError, match=r"^no offset was written: nothing was written for .*: topic 'u' was"):
        write_all(store, plans, force=False)
    left = [znode and int(znode.data) for znode in store.get_data_many(paths)]
    assert left == [5, None] * groups


def test_of_a_large_group_all_is_put_back_if_a_topic_is_made_anew_between_its_requests(large):
    plans = plan_of_large(large)
    document = large.get_data("/brokers/topics/u").data

    def make_anew():
        large.delete("/brokers/topics/u")
        large.create("/brokers/topics/u", document)

    large.at, large.before = 3, make_anew
    with pytest.raises(OffsetWriteError, match=r"^no offset was written: nothing was written for .*: topic 'u' was"):
        write_all(large, plans, force=False)
    assert offsets_of_large(large)[:20] == [5] * 20
    assert 9 not in offsets_of_large(large)


def checked(group):
    columns = {"group": [group], "topic": ["t"], "partition": [0], "offset": [5]}
    return list(check_batch(pa.RecordBatch.from_pydict(columns), tuple(columns), may_delete=False))


@pytest.mark.parametrize("group", ["", ".", "..", "a/b", "a\nb", "a\0", "\x7f", "\x85", "\uf8ff", "\uffff", "a😀"])
def test_a_group_name_that_zookeeper_refuses_is_an_error_of_one_line(group):
    with pytest.raises(OffsetWriteError) as caught:
        checked(group)
    assert len(str(caught.value).splitlines()) == 1
    assert str(caught.value).startswith("no offset was written: there can be no such group: (group ")


@pytest.mark.parametrize("group", ["a b", "ü", "日本", "a[1]", "\xa0"])
def test_a_group_of_any_other_letters_is_written(group):
    assert checked(group) == [(group, "t", 0, 5)]


@pytest.mark.parametrize("name", ["group", "TOPIC", "Partition", "offset", "Offset"])
def test_a_column_that_stands_twice_in_whatever_case_is_refused(name):
    fields = [("group", "string"), ("topic", "string"), ("partition", "int"), ("offset", "bigint")]
    type_name = dict(fields)[name.lower()]
    for several in ([*fields, (name, type_name)], [(name, type_name), *fields]):
        with pytest.raises(SchemaMismatchError, match="stands twice"):
            offset_columns(several)
