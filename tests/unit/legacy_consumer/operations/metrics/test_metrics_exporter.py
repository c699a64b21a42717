"""The exporter over an in-memory ZooKeeper: its reads, its pages, and its behaviour while a source is away."""

from __future__ import annotations

from collections import Counter
from gzip import decompress

import pytest
from prometheus_client.parser import text_string_to_metric_families

from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.operations.admin.groups import describe_groups
from legacy_consumer.operations.admin.lag_verdict import Judging, Kind
from legacy_consumer.operations.admin.lag_watch import GroupWatch, judge_whole
from legacy_consumer.operations.metrics.catalogue import EXPORTER_METRICS
from legacy_consumer.operations.metrics.exporter import ClusterJudge, ClusterReader, CountedReads, Exporter, Selection
from legacy_consumer.operations.metrics.exporter.counted_reads import Pace
from legacy_consumer.operations.metrics.exporter.exporter import ExporterSettings
from legacy_consumer.operations.metrics.exporter.rendering import escaped
from tests.support.group_members import FakeClock
from zk_layout.codecs import encode_topic
from zk_layout.errors import ConnectionLostError, NotPermittedError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment

OWNER = "h-1-a"


class CountingStore(MemoryStore):
    """Counts reads by kind and by path. down: every request fails. closed: the paths that an ACL forbids to read."""

    def __init__(self, server, reads):
        super().__init__(server)
        self.reads = reads
        self.paths = Counter()
        self.down = False
        self.closed = set()

    def get_children(self, path, watcher=None):
        self._note([path])
        return super().get_children(path, watcher)

    def get_data_many(self, paths, watcher=None):
        self._note(paths)
        return super().get_data_many(paths, watcher)

    def get_children_many(self, paths):
        self._note(paths)
        return super().get_children_many(paths)

    def _note(self, paths):
        if self.down:
            raise ConnectionLostError("connection lost")
        for path in self.closed.intersection(paths):
            raise NotPermittedError(path)
        self.reads.note(len(paths))
        self.paths.update(paths)


class Ends:
    """The brokers' answers about the ends of logs. silent: partitions whose broker is away."""

    def __init__(self):
        self.known = {}
        self.begins = {}
        self.silent = set()
        self.down = False

    def latest(self, partitions):
        return self._told(self.known, partitions)

    def earliest(self, partitions):
        return self._told(self.begins, partitions)

    def _told(self, known, partitions):
        if self.down:
            raise BrokersUnavailableError("no broker can be reached")
        wanted = {(tp.topic, tp.partition): tp for tp in partitions}
        return {tp: known.get(key, 0) for key, tp in wanted.items() if key not in self.silent}

    def close(self):
        pass


class World:
    def __init__(self, **settings):
        self.clock = FakeClock()
        server = MemoryZooKeeper(wall_ms=self.clock.wall_ms)
        self.admin = MemoryStore(server)
        self.admin.start()
        self.reads = CountedReads()
        self.store = CountingStore(server, self.reads)
        self.ends = Ends()
        self.exporter = Exporter(
            self.store,
            self.ends,
            self.reads,
            reader=ClusterReader(Selection(idle_every=settings.pop("idle_every", 1))),
            judge=ClusterJudge(Judging(patience_ms=60_000)),
            settings=ExporterSettings(**settings),
            clock=self.clock,
        )
        self.admin.create("/brokers/topics/t", encode_topic(TopicAssignment({0: (0,), 1: (0,)})), make_parents=True)

    def put(self, path, data=b""):
        if self.admin.exists(path) is None:
            self.admin.create(path, data, make_parents=True)
        else:
            self.admin.set_data(path, data)

    def commit(self, group, partition, offset, topic="t"):
        self.put(f"/consumers/{group}/offsets/{topic}/{partition}", b"%d" % offset)

    def join(self, group, owns=(0, 1), topic="t", more=b""):
        registration = b'{"version":1,"subscription":{"%s":1},"pattern":"static","timestamp":"1"%s}'
        registration %= (topic.encode(), more)
        self.put(f"/consumers/{group}/ids/{group}_{OWNER}", registration)
        for partition in owns:
            self.put(f"/consumers/{group}/owners/{topic}/{partition}", f"{group}_{OWNER}-0".encode())

    def refresh(self, after_s=30.0):
        self.clock.now += after_s
        self.exporter.refresh()

    def scrape(self):
        """Return the page's samples as {(name, *label values in order of label names): value}."""
        text = b"".join(self.exporter.page(False).parts).decode()
        return {
            (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


@pytest.fixture
def world():
    return World()


def verdicts(found, group="g"):
    return {key[2]: key[4] for key in found if key[0] == "legacy_consumer_group_partition_verdict" and key[1] == group}


def test_lag_owner_and_verdict_of_every_partition_are_served(world):
    world.join("g", owns=(0,))
    world.commit("g", 0, 90)
    world.commit("g", 1, 100)
    world.ends.known = {("t", 0): 100, ("t", 1): 130}
    world.refresh()
    found = world.scrape()
    name = "legacy_consumer_group_partition"
    assert (found[f"{name}_lag", "g", "0", "t"], found[f"{name}_lag", "g", "1", "t"]) == (10, 30)
    assert (found[f"{name}_owned", "g", "0", "t"], found[f"{name}_owned", "g", "1", "t"]) == (1, 0)
    assert found[f"{name}_committed_offset", "g", "1", "t"] == 100
    assert found[f"{name}_committed_timestamp_seconds", "g", "1", "t"] == 1000.0
    assert verdicts(found) == {"0": "ok", "1": "stop"}
    assert found["legacy_consumer_group_lag", "g"] == 40
    assert found["legacy_consumer_group_members", "g"] == 1
    assert found["legacy_consumer_group_unowned_partitions", "g"] == 1
    assert found["legacy_consumer_group_verdict", "g", "error"] == 1
    assert found["legacy_consumer_topic_log_end_offset", "1", "t"] == 130


def test_an_owned_partition_that_does_not_move_is_stalled_after_a_while(world):
    world.join("g")
    world.commit("g", 0, 90)
    world.ends.known = {("t", 0): 100}
    seen = []
    for _ in range(5):
        world.refresh(after_s=30.0)
        seen.append(verdicts(world.scrape())["0"])
    assert (seen[0], seen[-1]) == ("ok", "stall")


@pytest.mark.parametrize("by_ms", [-3_600_000, 3_600_000])
def test_a_clock_that_is_set_changes_no_verdict(world, by_ms):
    world.join("g")
    world.ends.known = {("t", 0): 100, ("t", 1): 100}
    world.commit("g", 1, 90)
    wall_ms = world.clock.wall_ms
    seen = []
    for number in range(6):
        world.commit("g", 0, 90 + number)
        if number == 2:
            world.clock.wall_ms = lambda: wall_ms() + by_ms
        world.refresh()
        seen.append(verdicts(world.scrape()))
    assert seen[2] == {"0": "ok", "1": "ok"}
    assert seen[-1] == {"0": "ok", "1": "stall"}


def test_a_partition_that_is_owned_now_and_then_and_does_not_move_is_never_ok(world):
    world.commit("g", 0, 90)
    world.ends.known = {("t", 0): 100}
    seen = []
    for life in range(12):
        world.join("g")
        world.refresh(after_s=30.0)
        seen.append(verdicts(world.scrape())["0"])
        if life % 3 == 2:
            world.admin.delete(f"/consumers/g/ids/g_{OWNER}")
            world.refresh(after_s=30.0)
            seen.append(verdicts(world.scrape())["0"])
    assert set(seen[4:]) == {"stall", "stop"}


def test_samples_of_a_partition_without_an_owner_are_forgotten_after_a_while(world):
    world.join("g", owns=(0,))
    world.commit("g", 0, 90)
    world.ends.known = {("t", 0): 100}
    world.refresh()
    world.admin.delete(f"/consumers/g/ids/g_{OWNER}")
    for _ in range(19):
        world.refresh(after_s=30.0)
    assert world.exporter._judge._windows
    world.refresh(after_s=30.0)
    assert not world.exporter._judge._windows


def test_members_are_shown_with_the_brokers_that_they_need_as_describe_has_it(world):
    for partition, leader in ((0, 7), (1, 8), (2, 8), (3, -1)):
        state = b'{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":0,"isr":[7,8]}' % leader
        world.put(f"/brokers/topics/u/partitions/{partition}/state", state)
    world.put("/brokers/topics/u", encode_topic(TopicAssignment(dict.fromkeys(range(4), (7, 8)))))
    world.join("g", owns=(0, 1, 2, 3), topic="u")
    world.put("/consumers/g/ids/g_idle", b'{"version":1,"subscription":{"u":1},"pattern":"static","timestamp":"1"}')
    world.refresh()
    found = world.scrape()
    brokers = {key[1]: value for key, value in found.items() if key[0] == "legacy_consumer_group_member_brokers"}
    assert brokers == {f"g_{OWNER}": 2, "g_idle": 0}
    described = describe_groups(world.admin, world.ends, ["g"])[0]
    assert {one.consumer_id: one.brokers for one in described.members} == brokers
    assert world.store.paths["/brokers/topics/u/partitions/0/state"] == 1


def test_every_metric_of_the_catalogue_is_served_with_its_help_type_and_labels_and_nothing_else(world):
    world.join("g", owns=(0,))
    world.join("led", owns=(), more=b',"coordination":"leader"')
    world.commit("g", 0, 90)
    world.ends.known = {("t", 0): 100}
    world.refresh()
    families = list(text_string_to_metric_families(b"".join(world.exporter.page(False).parts).decode()))
    assert {(f.name, f.type, f.documentation) for f in families} == {
        (metric.family, metric.kind.value, metric.meaning) for metric in EXPORTER_METRICS
    }
    labels = {metric.family: set(metric.labels) for metric in EXPORTER_METRICS}
    assert all(set(sample.labels) == labels[f.name] for f in families for sample in f.samples)
    assert len(families) == len({family.name for family in families}), "a metric's lines are to stand together"


def test_a_packed_scrape_is_the_same(world):
    world.join("g")
    world.refresh()
    page = world.exporter.page(True)
    assert page.encoding == "gzip"
    assert decompress(b"".join(page.parts)) == b"".join(world.exporter.page(False).parts)


def test_groups_without_members_are_read_in_turns_and_served_always():
    world = World(idle_every=4)
    world.join("live")
    for n in range(8):
        world.commit(f"idle-{n}", 0, n)
    world.refresh()
    world.store.paths.clear()
    for _ in range(4):
        world.refresh()
        assert sum(key[0] == "legacy_consumer_group_partition_committed_offset" for key in world.scrape()) == 8
    assert world.store.paths["/consumers/live/owners/t/0"] == 4
    assert {world.store.paths[f"/consumers/idle-{n}/offsets/t/0"] for n in range(8)} == {1}


def test_a_group_with_a_new_member_is_read_at_the_next_refresh():
    world = World(idle_every=1000)
    world.commit("g", 0, 5)
    world.refresh()
    world.commit("g", 0, 6)
    world.join("g")
    world.refresh()
    found = world.scrape()
    assert found["legacy_consumer_group_partition_committed_offset", "g", "0", "t"] == 6
    # one more read after the last member has left, for its last commit
    world.commit("g", 0, 7)
    world.admin.delete(f"/consumers/g/ids/g_{OWNER}")
    world.refresh()
    found = world.scrape()
    assert found["legacy_consumer_group_partition_committed_offset", "g", "0", "t"] == 7
    assert found["legacy_consumer_group_members", "g"] == 0


def test_a_group_without_members_is_read_again_when_its_topic_is_made_anew():
    """The group's offset belongs to the earlier topic, so all messages of the new topic count as lag."""
    world = World(idle_every=1000)
    world.commit("g", 0, 100)
    world.ends.known = {("t", 0): 100}
    world.refresh()
    lag = "legacy_consumer_group_partition_lag", "g", "0", "t"
    assert world.scrape()[lag] == 0
    data = world.admin.get_data("/brokers/topics/t").data
    world.admin.delete("/brokers/topics/t")
    world.admin.create("/brokers/topics/t", data)
    world.refresh()
    assert world.scrape()[lag] == 100


def test_the_first_commits_in_a_topic_that_was_made_anew_are_no_rewind_for_the_exporter_and_describe(world):
    world.join("g", owns=(0,))
    world.ends.known = {("t", 0): 100}
    watch, seen = GroupWatch(), []

    def look():
        world.refresh()
        [described] = describe_groups(world.store, world.ends, ["g"])
        verdict = next(iter(watch.judge(described, world.clock.wall_ms()).values()))
        seen.append({verdicts(world.scrape())["0"], verdict.kind.value})

    for offset in (85, 90, None, 5, 8):
        if offset is None:
            data = world.admin.get_data("/brokers/topics/t").data
            world.admin.delete("/brokers/topics/t")
            world.admin.create("/brokers/topics/t", data)
            world.ends.known = {("t", 0): 10}
        else:
            world.commit("g", 0, offset)
        look()
    assert seen == [{"ok"}, {"ok"}, {"error"}, {"ok"}, {"ok"}]


def test_a_group_that_is_deleted_is_served_no_more(world):
    world.commit("g", 0, 5)
    world.refresh()
    for path in ("offsets/t/0", "offsets/t", "offsets"):
        world.admin.delete(f"/consumers/g/{path}")
    world.admin.delete("/consumers/g")
    world.refresh()
    assert not any("g" in key[1:] for key in world.scrape())


def test_while_zookeeper_is_away_the_last_data_is_served_and_its_age_grows(world):
    world.join("g")
    world.commit("g", 0, 5)
    world.refresh()
    world.store.down = True
    with pytest.raises(ConnectionLostError):
        world.refresh(after_s=90.0)
    found = world.scrape()
    assert found["legacy_consumer_group_partition_committed_offset", "g", "0", "t"] == 5
    assert found["legacy_consumer_exporter_up", "zookeeper"] == 0
    assert found["legacy_consumer_exporter_data_age_seconds", "zookeeper"] == 90.0
    assert found["legacy_consumer_exporter_refreshes_total", "failed"] == 1
    assert world.exporter.ready().holds
    assert world.exporter.alive().holds
    world.store.down = False
    world.refresh()
    assert world.scrape()["legacy_consumer_exporter_up", "zookeeper"] == 1


def test_while_the_brokers_are_away_offsets_are_read_and_lags_are_unknown(world):
    world.join("g")
    world.commit("g", 0, 90)
    world.ends.known = {("t", 0): 100}
    world.refresh()
    world.ends.down = True
    world.commit("g", 0, 120)
    world.refresh()
    found = world.scrape()
    assert found["legacy_consumer_group_partition_committed_offset", "g", "0", "t"] == 120
    assert ("legacy_consumer_group_partition_lag", "g", "0", "t") not in found, "an old end says that there is no lag"
    assert ("legacy_consumer_group_lag", "g") not in found
    assert verdicts(found)["0"] == "unknown"
    assert found["legacy_consumer_exporter_up", "brokers"] == 0
    assert found["legacy_consumer_exporter_data_age_seconds", "brokers"] == 30.0
    assert found["legacy_consumer_exporter_data_age_seconds", "zookeeper"] == 0


def test_the_age_is_that_of_the_page_that_is_served_while_a_refresh_goes_on_and_when_it_fails(world):
    def served():
        found = world.scrape()
        offset = found["legacy_consumer_group_partition_committed_offset", "g", "0", "t"]
        return offset, found["legacy_consumer_exporter_data_age_seconds", "zookeeper"]

    ages = []
    latest = world.ends.latest

    def slow(partitions):
        world.clock.now += 20
        ages.append(served())
        return latest(partitions)

    world.commit("g", 0, 5)
    world.refresh()
    world.ends.latest = slow
    world.commit("g", 0, 6)
    world.refresh()
    assert ages == [(5, 50)]
    assert served() == (6, 20)
    world.exporter._judge.judge = lambda *_: 1 / 0
    world.commit("g", 0, 7)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            world.refresh()
    assert served() == (6, 170)
    found = world.scrape()
    assert found["legacy_consumer_exporter_up", "zookeeper"] == found["legacy_consumer_exporter_up", "brokers"] == 0
    assert found["legacy_consumer_exporter_refreshes_total", "failed"] == 3
    assert world.exporter.alive().text == "alive; the last refresh failed: ZeroDivisionError: division by zero"


def test_brokers_are_not_away_when_zookeeper_goes_away_in_the_middle_of_a_refresh(world):
    world.commit("g", 0, 5)
    world.refresh()

    def lost(partitions):
        raise ConnectionLostError("connection lost")

    world.ends.latest = lost
    world.commit("g", 0, 6)
    with pytest.raises(ConnectionLostError):
        world.refresh()
    found = world.scrape()
    assert found["legacy_consumer_exporter_up", "zookeeper"] == 0
    assert found["legacy_consumer_exporter_up", "brokers"] == 1
    assert found["legacy_consumer_group_partition_committed_offset", "g", "0", "t"] == 5


def test_before_the_first_refresh_it_is_alive_and_not_ready(world):
    assert world.exporter.alive().holds
    assert not world.exporter.ready().holds
    assert world.scrape()["legacy_consumer_exporter_up", "zookeeper"] == 0


def test_offsets_of_a_deleted_topic_raise_no_alert_and_no_broker_is_asked(world):
    asked = []
    world.ends.latest = lambda partitions: asked.extend(partitions) or {}
    world.commit("g", 0, 5, topic="gone")
    world.refresh()
    assert verdicts(world.scrape()) == {}
    assert world.scrape()["legacy_consumer_group_partitions", "g"] == 0
    assert asked == []


def test_brokers_that_were_asked_nothing_are_neither_there_nor_away(world):
    def of_brokers():
        found = world.scrape()
        return [found.get((f"legacy_consumer_exporter_{name}", "brokers")) for name in ("up", "data_age_seconds")]

    world.ends.down = True
    world.refresh()
    assert of_brokers() == [None, None]
    assert world.scrape()["legacy_consumer_exporter_refreshes_total", "done"] == 1
    world.commit("g", 0, 5)
    world.refresh()
    assert of_brokers() == [0, None]


@pytest.mark.parametrize("data", [b"100", b"seven", b""])
@pytest.mark.parametrize("spoiled", [None, "gone", "left", "garbage", "closed"])
def test_the_exporter_and_describe_count_the_same_partitions_with_any_znodes(world, spoiled, data):
    for topic in ("left", "garbage", "closed"):
        world.put(f"/brokers/topics/{topic}", encode_topic(TopicAssignment({0: (0,)})))
    world.put("/brokers/topics/garbage", b"\xff{")
    world.store.closed = {"/brokers/topics/closed"}
    for partition in (0, 1):
        world.commit("g", partition, 100)
    world.ends.known = {("t", 0): 100, ("t", 1): 100, ("left", 0): 900, ("closed", 0): 103}
    world.ends.silent = {("garbage", 0)}
    if spoiled is not None:
        world.put(f"/consumers/g/offsets/{spoiled}/0", data)
        world.put(f"/consumers/g/owners/{spoiled}/0", data)
    if spoiled == "left":
        world.join("g")
    world.refresh()
    found = world.scrape()
    [described] = describe_groups(world.store, world.ends, ["g"])
    whole = judge_whole(described, GroupWatch().judge(described, world.clock.wall_ms()))
    assert found["legacy_consumer_group_partitions", "g"] == len(described.consumed)
    assert found["legacy_consumer_group_unowned_partitions", "g"] == described.unowned
    assert found["legacy_consumer_group_verdict", "g", whole.kind.value] == 1
    unknown = any(row.lag is None for row in described.consumed)
    assert unknown == (described.unknown_lags > 0)
    assert found.get(("legacy_consumer_group_lag", "g")) == (None if unknown else described.total_lag)
    if spoiled in {None, "gone", "left"}:
        assert (whole.kind, unknown) == (Kind.OK, False)
    else:
        assert whole.kind is not Kind.OK, "what is not known is never ok"


def test_a_group_that_has_never_committed_is_neither_ok_nor_without_lag(world):
    world.join("g")
    world.ends.known = {("t", 0): 5000, ("t", 1): 0}
    world.refresh()
    found = world.scrape()
    assert verdicts(found) == {"0": "unknown", "1": "ok"}
    assert found["legacy_consumer_group_partition_lag", "g", "1", "t"] == 0
    assert ("legacy_consumer_group_lag", "g") not in found
    assert found["legacy_consumer_group_verdict", "g", "unknown"] == 1


def test_an_offset_of_an_earlier_topic_has_the_whole_log_as_its_lag(world):
    world.commit("g", 0, 5000)
    world.admin.delete("/brokers/topics/t")
    world.put("/brokers/topics/t", encode_topic(TopicAssignment({0: (0,)})))
    world.ends.known = {("t", 0): 6000}
    world.refresh()
    found = world.scrape()
    assert found["legacy_consumer_group_partition_lag", "g", "0", "t"] == 6000
    assert verdicts(found) == {"0": "error"}


def test_a_lag_counts_no_deleted_messages_and_is_absent_for_an_offset_beyond_the_log(world):
    world.commit("g", 0, 10)
    world.commit("g", 1, 500)
    world.ends.known = {("t", 0): 100, ("t", 1): 100}
    world.ends.begins = {("t", 0): 70, ("t", 1): 70}
    world.refresh()
    found = world.scrape()
    assert found["legacy_consumer_group_partition_lag", "g", "0", "t"] == 30
    assert ("legacy_consumer_group_partition_lag", "g", "1", "t") not in found
    assert ("legacy_consumer_group_lag", "g") not in found
    assert verdicts(found) == {"0": "error", "1": "error"}


def test_a_topic_that_all_members_left_is_no_business_of_the_group(world):
    world.put("/brokers/topics/old", encode_topic(TopicAssignment({0: (0,)})))
    world.commit("g", 0, 10, topic="old")
    world.join("g")
    for partition in (0, 1):
        world.commit("g", partition, 0)
    world.ends.known = {("old", 0): 20}
    world.refresh()
    found = world.scrape()
    assert found["legacy_consumer_group_unowned_partitions", "g"] == 0
    assert found["legacy_consumer_group_partitions", "g"] == 2
    assert found["legacy_consumer_group_lag", "g"] == 0
    assert found["legacy_consumer_group_verdict", "g", "ok"] == 1
    # without members, only the committed offset shows how far the group came
    world.admin.delete(f"/consumers/g/ids/g_{OWNER}")
    world.refresh()
    assert world.scrape()["legacy_consumer_group_lag", "g"] == 10


def test_a_sum_with_a_partition_of_unknown_lag_is_absent(world):
    world.join("g")
    for partition in (0, 1):
        world.commit("g", partition, 0)
    world.ends.known = {("t", 0): 100, ("t", 1): 100}
    world.refresh()
    assert world.scrape()["legacy_consumer_group_lag", "g"] == 200
    world.ends.silent = {("t", 1)}
    world.refresh()
    found = world.scrape()
    assert ("legacy_consumer_group_lag", "g") not in found
    assert found["legacy_consumer_group_partition_lag", "g", "0", "t"] == 100
    assert found["legacy_consumer_exporter_unknown_log_ends",] == 1
    assert found["legacy_consumer_group_verdict_partitions", "g", "unknown"] == 1


def test_a_refresh_that_hangs_makes_its_sources_overdue(world):
    world.join("g")
    world.refresh()
    world.clock.now += 60
    assert world.scrape()["legacy_consumer_exporter_up", "brokers"] == 1
    world.clock.now += 20
    found = world.scrape()
    assert found["legacy_consumer_exporter_up", "brokers"] == found["legacy_consumer_exporter_up", "zookeeper"] == 0


@pytest.fixture
def paced():
    """A world whose exporter may read one znode a second; its clock advances while the exporter pauses.

    probes: (seconds of the pause, whether the exporter is alive, its sample `up` for ZooKeeper).
    """
    world = World(reads_per_second=1.0)
    for n in range(250):
        world.commit(f"g{n}", 0, 5)
    world.probes = []

    def wait(event, seconds):
        world.clock.now += seconds
        up = world.scrape()["legacy_consumer_exporter_up", "zookeeper"]
        world.probes.append((seconds, world.exporter.alive().holds, up))
        return event.is_set()

    world.clock.wait = wait
    return world


def test_a_refresh_that_pauses_for_long_to_keep_its_pace_is_alive(paced):
    paced.refresh()
    assert max(seconds for seconds, _, _ in paced.probes) > 330
    assert all(holds for _, holds, _ in paced.probes)


def test_data_is_as_old_as_its_first_read_and_a_source_that_is_read_slowly_is_not_away(paced):
    for after_s in (0.0, 3.0):
        paced.probes.clear()
        # after_s: the exporter's pause before the refresh
        paced.refresh(after_s=after_s)
        took_s = sum(seconds for seconds, _, _ in paced.probes)
        assert paced.scrape()["legacy_consumer_exporter_data_age_seconds", "zookeeper"] == pytest.approx(took_s)
    assert took_s > 1000
    assert all(up for _, _, up in paced.probes)


def test_a_step_of_a_refresh_that_does_not_end_is_not_alive(world):
    judged = []
    read = world.store.get_data_many

    def hang(paths, watcher=None):
        world.clock.now += 331
        judged.append(world.exporter.alive().holds)
        return read(paths, watcher)

    world.store.get_data_many = hang
    world.commit("g", 0, 5)
    world.refresh()
    assert judged[0] is False
    assert world.exporter.alive().holds


def test_a_group_that_may_not_be_read_is_an_error_and_ends_nothing(world):
    world.commit("g", 0, 5)
    world.commit("secret", 0, 5)
    real = world.store.get_children_many

    def get_children_many(paths):
        for path in paths:
            if path.startswith("/consumers/secret/"):
                raise NotPermittedError(path)
        return real(paths)

    world.store.get_children_many = get_children_many
    for _ in range(2):
        world.refresh()
        found = world.scrape()
        assert found["legacy_consumer_group_verdict", "secret", "error"] == 1
        assert ("legacy_consumer_group_members", "secret") not in found
        assert found["legacy_consumer_group_partition_committed_offset", "g", "0", "t"] == 5


def test_a_repeated_error_is_logged_once(world, caplog):
    world.store.down = True
    stops = iter([False, False, False, True])
    world.exporter._ended.is_set = lambda: next(stops)
    world.exporter._run()
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "ZooKeeper cannot be read, there is no data to serve yet: connection lost"
    ]


def test_a_broken_znode_is_an_error_of_its_partition(world):
    world.put("/consumers/g/offsets/t/0", b"12x")
    world.refresh()
    assert verdicts(world.scrape())["0"] == "error"


@pytest.mark.parametrize(
    "group", ['a"b\\c\nd', "a\u2028b\u2029c\x85d", "\u202egnp", "\u200f=1+1", '"} 1', "x" * 40_000], ids=ascii
)
def test_names_that_others_chose_cannot_break_the_page(world, group):
    world.commit(group, 0, 5)
    world.refresh()
    assert world.scrape()["legacy_consumer_group_partition_committed_offset", group, "0", "t"] == 5
    assert escaped("\ud800") == "?"


def test_the_metrics_of_partitions_can_be_left_out():
    world = World(with_partitions=False)
    world.commit("g", 0, 5)
    world.ends.known = {("t", 0): 5}
    world.refresh()
    names = {key[0] for key in world.scrape()}
    assert "legacy_consumer_group_lag" in names
    assert not any("partition_" in name and name.startswith("legacy_consumer_group_partition_") for name in names)


def test_reads_do_not_grow_with_batches_of_their_own_for_each_group(world):
    for n in range(50):
        world.join(f"g{n}")
    world.refresh()
    batches = world.reads.batches
    assert world.reads.znodes > 50 * 6
    for n in range(50, 100):
        world.join(f"g{n}")
    world.refresh()
    assert world.reads.batches - batches == batches


def test_every_registration_topic_owner_and_offset_is_read_once_in_a_refresh(world):
    for n in range(3):
        world.join(f"g{n}")
        for partition in (0, 1):
            world.commit(f"g{n}", partition, 5)
    world.commit("idle", 0, 5)
    world.refresh()
    world.store.paths.clear()
    world.refresh()
    often = {path for path, many in world.store.paths.items() if many > 1}
    # the exporter reads the ids once to choose the groups to read, and again with the groups
    assert often == {f"/consumers/{group}/ids" for group in ("g0", "g1", "g2", "idle")}


def test_the_pace_is_kept_between_batches():
    now, pauses = [0.0], []
    pace = Pace(100.0, lambda: now[0], pauses.append)
    pace.begin(1000)
    pace.keep(1050)
    now[0] = 2.0
    pace.keep(1150)
    assert pauses == [0.5]


def test_only_chosen_groups_are_read():
    world = World()
    world.exporter._reader = ClusterReader(Selection(lambda group: group != "left-out"))
    world.commit("left-out", 0, 5)
    world.commit("g", 0, 5)
    world.refresh()
    assert not any("left-out" in path for path in world.store.paths)
    assert world.scrape()["legacy_consumer_exporter_groups", "idle"] == 1
