"""A member's metrics for Prometheus, over an in-memory ZooKeeper and in-memory logs; and the verdicts on its health."""

from __future__ import annotations

import re
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from gzip import decompress
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from legacy_consumer import ConsumerConnector, Phase, metrics
from legacy_consumer.errors import BrokersUnavailableError, FetchError, MetricsServerError
from legacy_consumer.offsets.progress import Committed, PartitionProgress
from legacy_consumer.operations.metrics.catalogue import MEMBER_METRICS, Kind
from legacy_consumer.operations.metrics.health import Judgement, judge_liveness, judge_readiness
from legacy_consumer.operations.metrics.lag_sample import LagSampler
from rebalance.counters import BUCKETS_S, MemberCounters, Vitals
from rebalance.status import Status
from tests.support.fake_kafka import FakeFetchers, FakeKafka
from tests.support.group_members import FakeClock
from tests.support.waiting import eventually
from zk_layout.codecs import encode_topic
from zk_layout.errors import AuthenticationError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment, TopicPartition

TPS = [TopicPartition("t", n) for n in range(2)]


class World:
    def __init__(self):
        self.zookeeper = MemoryZooKeeper()
        self.kafka = FakeKafka()
        self.admin = MemoryStore(self.zookeeper)
        self.admin.start()
        self.admin.create("/brokers/topics/t", encode_topic(TopicAssignment({0: (0,), 1: (0,)})), make_parents=True)
        for n in range(2):
            self.admin.create(f"/consumers/g/offsets/t/{n}", b"0", make_parents=True)
        self.fetchers = FakeFetchers(self.kafka)
        self.members = []

    def member(self, **properties):
        made = ConsumerConnector(
            store=MemoryStore(self.zookeeper),
            fetchers=self.fetchers,
            zookeeper_connect="memory",
            group_id="g",
            auto_offset_reset="smallest",
            consumer_timeout_ms=2000,
            **properties,
        )
        self.members.append(made)
        return made


@pytest.fixture
def world():
    world = World()
    yield world
    for member in world.members:
        member.shutdown()


def scraped(*members, registry=None):
    """Return {(name, *label values except group and consumer id): value}."""
    registry = registry or CollectorRegistry()
    registry.register(metrics.MemberCollector(members))
    return {
        (sample.name, *(v for k, v in sorted(sample.labels.items()) if k not in {"group", "consumer_id"})): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def take(stream, count):
    messages = iter(stream)
    for _ in range(count):
        next(messages)
    return messages


def test_every_metric_of_the_catalogue_is_collected_with_its_labels(world):
    world.kafka.produce(TPS[0], 3)
    member = world.member(group_coordination="leader")
    (stream,) = member.create_message_streams({"t": 1})["t"]
    take(stream, 3)
    member.commit_offsets()
    collector = metrics.MemberCollector([member])
    assert {family.name for family in collector.describe()} == {metric.family for metric in MEMBER_METRICS}
    for metric, family in zip(MEMBER_METRICS, collector.collect(), strict=True):
        assert (family.name, family.type, family.documentation) == (metric.family, metric.kind.value, metric.meaning)
        assert family.samples, metric
        for sample in family.samples:
            labels = set(sample.labels) - ({"le"} if metric.kind is Kind.HISTOGRAM else set())
            assert labels == set(metric.labels)
            assert (sample.labels["group"], sample.labels["consumer_id"]) == ("g", member.consumer_id)


def test_counters_of_consumed_and_committed_messages_keep_their_values_when_a_partition_leaves(world):
    world.kafka.produce(TPS[0], 5)
    world.kafka.produce(TPS[1], 5)
    member = world.member()
    (stream,) = member.create_message_streams({"t": 1})["t"]
    messages = take(stream, 10)
    found = scraped(member)
    assert found["legacy_consumer_member_consumed_messages_total", "t"] == 9  # one message is in hand
    assert found["legacy_consumer_member_committed_messages_total", "t"] == 0, "a rate sees the first only after a 0"
    member.commit_offsets()
    found = scraped(member)
    assert found["legacy_consumer_member_committed_messages_total", "t"] == 10
    assert found["legacy_consumer_member_commits_total", "done"] == 1
    assert found["legacy_consumer_member_owned_partitions", "t"] == 2
    other = world.member()
    other.create_message_streams({"t": 1})
    world.kafka.produce(TPS[0], 1)
    world.kafka.produce(TPS[1], 1)
    next(messages)  # come back, so that the message in hand counts as consumed
    eventually(lambda: len(member.status.owned) == 1)
    assert scraped(member)["legacy_consumer_member_consumed_messages_total", "t"] >= 10
    assert scraped(member)["legacy_consumer_member_rebalances_total", "moved"] == 2
    assert scraped(member)["legacy_consumer_member_rebalance_duration_seconds_count",] >= 2


def test_two_members_of_a_process_have_metrics_of_their_own(world):
    first, second = world.member(), world.member()
    collector = metrics.MemberCollector([first, second])
    alive = next(family for family in collector.collect() if family.name == "legacy_consumer_member_alive")
    assert {sample.labels["consumer_id"] for sample in alive.samples} == {first.consumer_id, second.consumer_id}


def test_a_member_has_one_phase(world):
    member = world.member()
    assert scraped(member)["legacy_consumer_member_phase", "created"] == 1
    member.create_message_streams({"t": 1})
    phases = {key[1]: value for key, value in scraped(member).items() if key[0] == "legacy_consumer_member_phase"}
    assert phases == {phase.value: float(phase is Phase.STABLE) for phase in Phase}


def test_a_member_tells_how_it_stands_in_a_led_group_and_of_a_classic_one_only_that(world):
    prefix = "legacy_consumer_member_"
    names = ("coordination", "led_state", "generation", "leads", "group_state")

    def told(member):
        found = scraped(member)
        return {
            (key[0].removeprefix(prefix), *key[1:]): value
            for key, value in found.items()
            if key[0].removeprefix(prefix) in names and value
        }

    leading, other = (world.member(group_coordination="leader", consumer_id=name) for name in "ab")
    assert told(leading) == {("coordination", "leader"): 1, ("led_state", "down"): 1}
    for member in (leading, other):
        member.create_message_streams({"t": 1})
    generation = other.status.led.generation
    same = {("coordination", "leader"): 1, ("led_state", "member"): 1, ("generation",): generation}
    eventually(lambda: told(other) == same)
    eventually(lambda: told(leading) == {**same, ("leads",): 1, ("group_state", "Stable"): 1})
    assert scraped(other)[f"{prefix}leads",] == 0
    leading.shutdown()
    assert {key: value for key, value in told(leading).items() if key != ("generation",)} == {
        ("coordination", "leader"): 1,
        ("led_state", "down"): 1,
    }
    other.shutdown()
    classic = world.member()
    classic.create_message_streams({"t": 1})
    assert told(classic) == {("coordination", "classic"): 1}


def test_commits_that_fail_and_fetches_that_fail_are_counted(world):
    member = world.member()
    (stream,) = member.create_message_streams({"t": 1})["t"]
    world.fetchers.made[0].poll = raising(FetchError(TPS[0], "corrupt"))
    with pytest.raises(FetchError):
        next(stream)
    assert scraped(member)["legacy_consumer_member_fetch_errors_total",] == 1


def raising(error):
    def fail(*_):
        raise error

    return fail


def test_a_listener_that_raises_is_counted(world):
    class Bad:
        before_starting_fetchers = before_releasing_partitions = raising(ValueError("mine"))

    member = world.member()
    member.set_rebalance_listener(Bad())
    member.create_message_streams({"t": 1})
    assert scraped(member)["legacy_consumer_member_listener_errors_total",] == 1


def test_durations_fall_into_buckets_up_to_their_bound():
    counters = MemberCounters()
    for seconds in (0.005, BUCKETS_S[0], 0.3, 100.0):
        counters.note_settled((0, 0, 1), seconds)
    counters.note_settled((3, 0, 0), None)
    assert counters.durations == [2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1]
    assert counters.rebalances == {"moved": 4, "unchanged": 1}


class ScrapeClock(FakeClock):
    """A clock that stands still, but whose wait() waits in real time for an answer."""

    def wait(self, event, timeout_s):
        return event.wait(timeout_s)


class Log:
    """Brokers that answer when the test allows it, and the progress of a member, which the test changes meanwhile."""

    def __init__(self):
        self.end, self.asked = 100, []
        self.progress = {TPS[0]: owned(1, 40), TPS[1]: owned(2, None)}
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.error = None

    def ask(self, partitions):
        self.asked.append(list(partitions))
        self.may_answer.wait(60)
        if self.error is not None:
            raise self.error
        return dict.fromkeys(partitions, self.end)

    def sampler(self, clock, **settings):
        return LagSampler(lambda: dict(self.progress), self.ask, clock=clock, **settings)

    def lags(self, sample):
        found = {tp: sample.lag(tp, now) for tp, now in self.progress.items()}
        return {tp: lag for tp, lag in found.items() if lag is not None}


def owned(epoch, consumed):
    return PartitionProgress(epoch, consumed, Committed(None, None))


def test_the_first_scrape_has_the_lag_of_its_own_moment():
    log = Log()
    sample = log.sampler(ScrapeClock(), answer_s=60).read()
    assert {tp: sample.end(tp, now) for tp, now in log.progress.items()} == {TPS[0]: 100, TPS[1]: 100}
    assert log.lags(sample) == {TPS[0]: 60}


def test_an_end_that_was_asked_for_earlier_is_never_held_against_a_later_position():
    log, clock = Log(), ScrapeClock()
    sampler = log.sampler(clock, answer_s=60)
    sampler.read()
    # the member is at the log's earlier end, and far behind its present end
    log.end, log.progress[TPS[0]] = 20_100, owned(1, 100)
    clock.now += 5
    assert log.lags(sampler.read()) == {TPS[0]: 60}
    assert sampler.age_s(sampler.read()) == 5
    clock.now += 5
    assert log.lags(sampler.read()) == {TPS[0]: 20_000}
    assert sampler.age_s(sampler.read()) == 0


@pytest.mark.parametrize(
    ("change", "lags"),
    [
        ({TPS[0]: owned(1, 40), TPS[1]: owned(2, 7)}, {TPS[0]: 60, TPS[1]: 93}),
        ({TPS[0]: owned(3, 90), TPS[1]: owned(2, None)}, {TPS[0]: 10}),
        ({TPS[1]: owned(3, 0)}, {TPS[1]: 100}),
    ],
    ids=["a position became known", "the user sought, or the partition went and came back", "it came back alone"],
)
def test_brokers_are_asked_at_once_for_partitions_that_the_last_sample_lacks(change, lags):
    log, clock = Log(), ScrapeClock()
    sampler = log.sampler(clock, answer_s=60)
    sampler.read()
    clock.now += 1
    log.progress = change
    assert log.lags(sampler.read()) == lags
    assert log.lags(sampler.read()) == lags
    assert len(log.asked) == 2


def test_a_partition_that_has_gone_is_no_reason_to_ask_again():
    log = Log()
    sampler = log.sampler(ScrapeClock(), answer_s=60)
    sampler.read()
    del log.progress[TPS[1]]
    assert log.lags(sampler.read()) == {TPS[0]: 60}
    assert len(log.asked) == 1


def test_an_answer_of_a_partitions_former_assignment_is_not_told_of_the_next_one():
    log = Log()
    sample = log.sampler(ScrapeClock(), answer_s=60).read()
    assert (sample.end(TPS[0], owned(9, 40)), sample.lag(TPS[0], owned(9, 40))) == (None, None)


def test_a_position_beyond_the_end_of_the_log_is_no_lag_of_0():
    log = Log()
    log.progress = {TPS[0]: owned(1, 101), TPS[1]: owned(2, 100)}
    assert log.lags(log.sampler(ScrapeClock(), answer_s=60).read()) == {TPS[1]: 0}


def test_brokers_that_do_not_answer_leave_the_lag_unknown():
    log, clock = Log(), ScrapeClock()
    sampler = log.sampler(clock, answer_s=60)
    assert log.lags(sampler.read())
    clock.now += 10
    log.error = BrokersUnavailableError("none answers")
    assert (sampler.read().ends, log.lags(sampler.read())) == ({}, {})
    assert len(log.asked) == 2, "with every scrape it would wait for them anew"
    clock.now += 10
    log.error = ValueError("a defect of ours")
    assert log.lags(sampler.read()) == {}


def test_a_sample_older_than_a_scrape_waits_for_a_new_one_is_not_told():
    log, clock = Log(), ScrapeClock()
    sampler = log.sampler(clock, answer_s=0.5)
    assert log.lags(eventually(sampler.read)) == {TPS[0]: 60}
    log.may_answer.clear()
    clock.now += 10.2
    assert log.lags(sampler.read()) == {TPS[0]: 60}
    clock.now += 0.3
    assert sampler.read() is None
    log.may_answer.set()


def test_brokers_are_asked_once_at_a_time_and_a_scrape_waits_only_so_long():
    log = Log()
    log.may_answer.clear()
    sampler = log.sampler(ScrapeClock(), answer_s=0.01)
    assert sampler.read() is None
    assert sampler.read() is None
    log.may_answer.set()
    assert log.lags(eventually(sampler.read)) == {TPS[0]: 60}
    assert log.asked == [TPS]


@pytest.mark.parametrize("way", ["iterate", "batches", "arrow"])
def test_the_time_for_which_the_users_code_has_messages_in_hand_grows_until_it_asks_again(world, way):
    world.kafka.produce(TPS[0], 6)
    member = world.member(clock=(clock := FakeClock()))
    (stream,) = member.create_message_streams({"t": 1})["t"]
    messages = {
        "iterate": lambda: iter(stream),
        "batches": lambda: stream.batches(3),
        "arrow": lambda: stream.arrow_batches(3),
    }[way]()
    assert member.vitals.in_hand_s == 0
    next(messages)
    clock.now += 100
    assert member.vitals.in_hand_s == 100
    clock.now += 100
    assert member.vitals.in_hand_s == 200
    next(messages)
    assert member.vitals.in_hand_s == 0


def test_the_time_without_a_request_for_messages_grows_with_messages_in_hand_or_without(world):
    member = world.member(clock=(clock := FakeClock()), auto_commit_enable=False)
    (stream,) = member.create_message_streams({"t": 1})["t"]
    clock.now += 100
    assert member.vitals.unasked_s == 100, "nobody ever began"
    world.kafka.produce(TPS[0], 1)
    next(stream)
    assert member.vitals.unasked_s == 0
    clock.now += 100
    assert (member.vitals.unasked_s, member.vitals.in_hand_s) == (100, 100)
    world.fetchers.made[0].poll = raising(FetchError(TPS[0], "corrupt"))
    with pytest.raises(FetchError):
        next(stream)
    clock.now += 100
    assert (member.vitals.unasked_s, member.vitals.in_hand_s) == (100, 0), "the loop ended with the error"
    assert scraped(member)["legacy_consumer_member_unasked_seconds",] == 100


@pytest.mark.parametrize("way", ["iterate", "next"])
def test_a_slow_loop_over_the_messages_of_one_fetch_asks_with_each_message(world, way):
    world.kafka.produce(TPS[0], 5)
    member = world.member(clock=(clock := FakeClock()))
    (stream,) = member.create_message_streams({"t": 1})["t"]
    messages = iter(stream) if way == "iterate" else stream
    for _ in range(5):
        next(messages)
        assert member.vitals.unasked_s == 0
        clock.now += 50
        assert member.vitals.unasked_s == 50


def test_a_stream_that_waits_for_messages_is_asked_all_the_time(world):
    member = world.member(clock=(clock := FakeClock()))
    (stream,) = member.create_message_streams({"t": 1})["t"]
    looks = []

    def poll(max_messages, timeout_s):
        clock.now += 100
        looks.append(member.vitals.unasked_s)
        raise FetchError(TPS[0], "enough")

    world.fetchers.made[0].poll = poll
    with pytest.raises(FetchError):
        next(stream)
    assert looks == [0]


def test_a_member_without_partitions_is_not_waited_for(world):
    world.member(consumer_id="a").create_message_streams({"t": 2})
    idle = world.member(consumer_id="b", clock=(clock := FakeClock()))
    idle.create_message_streams({"t": 1})
    clock.now += 1000
    assert not idle.status.owned
    assert idle.vitals.unasked_s == 0


def test_the_time_since_a_stream_lost_its_thread_grows_until_another_thread_asks(world):
    world.kafka.produce(TPS[0], 3)
    member = world.member(clock=(clock := FakeClock()))
    (stream,) = member.create_message_streams({"t": 1})["t"]
    with ThreadPoolExecutor(1) as pool:
        pool.submit(next, stream).result()
        clock.now += 100
        assert (member.vitals.unasked_s, member.vitals.deserted_s) == (100, 0), "its thread lives and may be at work"
        pool.submit(next, stream).result()
        assert member.vitals.unasked_s == 0
    clock.now += 100
    assert member.vitals.deserted_s == 100
    next(stream)
    assert member.vitals.unasked_s == 0
    clock.now += 100
    assert (member.vitals.unasked_s, member.vitals.deserted_s) == (100, 0)


def test_a_stream_without_partitions_needs_no_thread(world):
    world.member(consumer_id="a").create_message_streams({"t": 2})
    idle = world.member(consumer_id="b", clock=(clock := FakeClock()))
    (stream,) = idle.create_message_streams({"t": 1})["t"]
    with ThreadPoolExecutor(1) as pool:
        assert not pool.submit(next, stream.batches(timeout=0)).result()
    clock.now += 1000
    assert not idle.status.owned
    assert idle.vitals.deserted_s == 0


def test_a_member_whose_consuming_thread_has_ended_is_alive_for_two_minutes():
    status = Status(Phase.STABLE)
    assert judge_liveness(status, replace(ALIVE, deserted_s=119.0)).holds
    text = "the thread that consumed has ended, and no other has asked for messages for 121 s"
    assert judge_liveness(status, replace(ALIVE, deserted_s=121.0)) == Judgement(False, text)


def test_a_ready_member_says_when_the_users_code_does_not_come_back():
    status = Status(Phase.STABLE)
    assert judge_readiness(status, replace(ALIVE, unasked_s=59.0)).text == "settled with 0 partitions"
    said = judge_readiness(status, replace(ALIVE, unasked_s=61.0))
    assert said.holds
    assert said.text == "settled with 0 partitions; the user's code has not asked for messages for 61 s"


def test_a_member_without_a_lease_owns_nothing_for_its_metrics(world):
    world.kafka.produce(TPS[0], 3)
    member = world.member()
    (stream,) = member.create_message_streams({"t": 1})["t"]
    take(stream, 3)
    collector = metrics.MemberCollector([member])
    found = {family.name: family.samples for family in collector.collect()}
    assert [sample.value for sample in found["legacy_consumer_member_leased"]] == [1]
    assert found["legacy_consumer_member_owned_partitions"]
    assert found["legacy_consumer_member_lag"]
    member._membership._lease.holds = lambda: False
    found = {family.name: family.samples for family in collector.collect()}
    assert [sample.value for sample in found["legacy_consumer_member_leased"]] == [0]
    for name in ("owned_partitions", "lag", "lag_age_seconds", "consumed_offset", "committed_offset", "log_end_offset"):
        assert not found[f"legacy_consumer_member_{name}"], name
    assert judge_liveness(member.status, member.vitals).holds, "a restart would not bring ZooKeeper back"
    assert not judge_readiness(member.status, member.vitals).holds


def get(url, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def test_serving_ends_with_the_members_shutdown_and_not_before(world):
    first, second = world.member(), world.member()
    server = metrics.serve([first, second], port=0)
    assert server.host == "127.0.0.1"
    base = f"http://127.0.0.1:{server.port}"
    first.create_message_streams({"t": 1})
    status, headers, body = get(f"{base}/metrics", **{"Accept-Encoding": "gzip"})
    assert (status, headers["Content-Encoding"]) == (200, "gzip")
    families = {family.name for family in text_string_to_metric_families(decompress(body).decode())}
    assert {"legacy_consumer_member_phase", "process_resident_memory_bytes"} <= families

    status, _, body = get(f"{base}/healthz")
    assert status == 200
    assert body.decode() == f"{first.consumer_id}: alive, stable; {second.consumer_id}: not joined yet\n"
    status, _, body = get(f"{base}/readyz")
    assert (status, b"settled with 2 partitions" in body, b"created" in body) == (503, True, True)
    assert get(f"{base}/elsewhere")[0] == 404
    first.shutdown()
    status, _, body = get(f"{base}/healthz")
    assert (status, b"it has left its group" in body) == (503, True)
    second.shutdown()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{base}/metrics", timeout=60)


def test_a_port_that_is_taken_is_named(world):
    server = metrics.serve(world.member(), port=0)
    with pytest.raises(MetricsServerError, match=rf"127\.0\.0\.1:{server.port}: something listens there"):
        metrics.serve(world.member(), port=server.port)
    with pytest.raises(MetricsServerError, match=r"no\.such\.host\.invalid:0"):
        metrics.serve(world.member(), port=0, host="no.such.host.invalid")


ALIVE = Vitals(True, 0.0, True, leased=True)


def test_a_registry_has_the_members_of_one_server_for_as_long_as_it_serves_them(world):
    registry = CollectorRegistry()
    first, second = world.member(), world.member()
    metrics.serve(first, port=0, registry=registry)
    threads = set(threading.enumerate())
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        metrics.serve(second, port=0, registry=registry)
    assert set(threading.enumerate()) <= threads, "a refused server leaves no thread behind"
    first.shutdown()
    with pytest.raises(MetricsServerError):
        metrics.serve(second, port=0, host="..", registry=registry)
    server = metrics.serve(second, port=0, registry=registry)
    assert second.consumer_id.encode() in get(server.url)[2]
    second.shutdown()
    assert list(registry.collect()) == []


def test_a_member_that_holds_partitions_for_a_reset_is_alive_and_not_ready():
    status = Status(Phase.STABLE, held=frozenset({TopicPartition("t", 0)}))
    assert judge_liveness(status, ALIVE).holds
    assert judge_readiness(status, ALIVE).text == "holds 1 partitions while an operator resets their offsets"


STATES = {
    "made, streams not yet created": Vitals(False, 0.0, False),
    "settled, the user's code does not ask for messages": replace(ALIVE, unasked_s=3600.0),
    "settled, the consuming thread ended two minutes ago and no other asks": replace(ALIVE, deserted_s=121.0),
    "connection to ZooKeeper lost": Vitals(True, 0.0, False, leased=True),
    "no answer from ZooKeeper for nearly a session timeout": Vitals(True, 0.0, True, leased=False),
    "one step takes longer than two minutes": Vitals(True, 121.0, True, leased=True),
    "the coordinator's thread is dead": Vitals(False, 0.0, True),
    "left": Vitals(False, 0.0, False),
}
FACTS = {
    "settled, some partitions held for a reset": {"held": frozenset({TopicPartition("t", 0)})},
    "ZooKeeper refuses the credentials": {"error": AuthenticationError("refused")},
}
DEPLOY = (Path(__file__).parents[5] / "docs" / "deploy.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([^|]+) \| `(\w+)` \| (200|503) \| (200|503) \|$", DEPLOY, re.MULTILINE)


def test_the_table_of_states_has_every_phase():
    assert {phase for _, phase, _, _ in ROWS} == {phase.value for phase in Phase}
    assert {*STATES, *FACTS} <= {state for state, _, _, _ in ROWS}


@pytest.mark.parametrize(("state", "phase", "healthz", "readyz"), ROWS)
def test_health_in_each_state_is_as_documented(state, phase, healthz, readyz):
    status, vitals = Status(Phase(phase), **FACTS.get(state, {})), STATES.get(state, ALIVE)
    assert (judge_liveness(status, vitals).holds, judge_readiness(status, vitals).holds) == (
        healthz == "200",
        readyz == "200",
    )


@pytest.mark.parametrize(
    ("phase", "vitals", "is_alive", "is_ready"),
    [
        (Phase.CREATED, Vitals(False, 0.0, False), True, False),
        (Phase.STABLE, ALIVE, True, True),
        (Phase.STABLE, Vitals(True, 0.0, False, leased=True), True, False),
        (Phase.STABLE, Vitals(True, 0.0, True, leased=False), True, False),
        (Phase.STABLE, Vitals(True, 119.0, True, leased=True), True, True),
        (Phase.REBALANCING, Vitals(True, 121.0, True), False, False),
        (Phase.STABLE, Vitals(False, 0.0, True), False, False),
        (Phase.DEGRADED, ALIVE, True, False),
        (Phase.EXPIRED, ALIVE, True, False),
        (Phase.CLOSED, Vitals(False, 0.0, True), False, False),
    ],
)
def test_health_is_of_the_thread_and_readiness_of_the_share(phase, vitals, is_alive, is_ready):
    status = Status(phase)
    assert judge_liveness(status, vitals).holds is is_alive
    assert judge_readiness(status, vitals).holds is is_ready
