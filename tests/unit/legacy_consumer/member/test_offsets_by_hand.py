"""offsets.by.hand: a listener keeps the offsets of some topics, and the group keeps the others."""

import pytest

from legacy_consumer import ConfigError, ConsumerConfig, OffsetsNotCommittedError, Phase, TopicPartition
from legacy_consumer.operations.admin.errors import ResetRequestError
from legacy_consumer.operations.admin.live_resets import write_live
from legacy_consumer.operations.admin.offset_plans import make_plan, read_standings
from tests.support.member_cluster import MemberCluster
from tests.support.waiting import eventually

HAND = [TopicPartition("hand", n) for n in range(2)]
GROUP = [TopicPartition("group", n) for n in range(2)]


@pytest.fixture(params=["zookeeper", "kafka"])
def cluster(request):
    """A cluster of two topics with two partitions each, and twenty messages in each partition."""
    cluster = MemberCluster(
        {"hand": 2, "group": 2},
        offsets_by_hand="hand",
        consumer_timeout_ms=5000,
        offsets_storage=request.param,
        drain_timeout_ms=2000,
        rebalance_backoff_ms=20,
    )
    cluster.produce(20, *HAND, *GROUP)
    yield cluster
    cluster.close()


class Database:
    """A listener that keeps the offsets of some topics, as a user's database does."""

    def __init__(self, offsets):
        self.offsets = dict(offsets)
        self.asked = []

    def starting_offsets(self, partitions):
        self.asked.append(dict(partitions))
        return {tp: self.offsets.get(tp) for tp in partitions}

    def before_releasing_partitions(self, partitions):
        pass

    def before_starting_fetchers(self, partitions, assignment):
        pass


def join(cluster, database, **properties):
    connector = cluster.connector(**properties)
    connector.set_rebalance_listener(database)
    streams = connector.create_message_streams({"hand": 1, "group": 1})
    return connector, streams["hand"][0], streams["group"][0]


def take(stream, count):
    """Take up to count messages. Returns: {partition: offsets}."""
    taken = {}
    for _, message in zip(range(count), stream, strict=False):
        taken.setdefault(TopicPartition(message.topic(), message.partition()), []).append(message.offset())
    return taken


def has_offsets(cluster, topic):
    in_kafka = any(tp.topic == topic for tp in cluster.group_offsets.kept)
    return in_kafka or bool(cluster.admin.exists(f"/consumers/g/offsets/{topic}"))


@pytest.mark.parametrize("auto_commit", [False, True])
def test_over_a_restart_each_topic_goes_on_from_its_own_place(cluster, auto_commit):
    database = Database(dict.fromkeys(HAND, 5))
    properties = {"auto_commit_enable": auto_commit, "auto_commit_interval_ms": 5}
    connector, hand, group = join(cluster, database, **properties)
    assert {tp: offsets[0] for tp, offsets in take(hand, 30).items()} == dict.fromkeys(HAND, 5)
    assert {tp: offsets[0] for tp, offsets in take(group, 40).items()} == dict.fromkeys(GROUP, 0)
    database.offsets[HAND[0]] = 9
    connector.commit_offsets()
    connector.shutdown()
    assert has_offsets(cluster, "group")
    assert not has_offsets(cluster, "hand"), "neither by a commit, nor by the last one of the release"
    cluster.produce(1, *GROUP)
    _, hand, group = join(cluster, database, **properties)
    assert {tp: offsets[0] for tp, offsets in take(hand, 26).items()} == {HAND[0]: 9, HAND[1]: 5}
    assert take(group, 2) == {tp: [20] for tp in GROUP}


def test_a_commit_by_name_is_refused_and_the_others_are_written(cluster):
    connector, _, _ = join(cluster, Database(dict.fromkeys(HAND, 5)))
    for unfenced in (False, True):
        with pytest.raises(OffsetsNotCommittedError, match=r"hand/0: its offsets are kept by hand: offsets\.by\.hand"):
            connector.commit_offsets({HAND[0]: 7, GROUP[0]: 3}, unfenced=unfenced)
    assert connector.committed([GROUP[0], HAND[0]]) == {GROUP[0]: 3, HAND[0]: None}


def test_the_groups_offsets_of_topics_by_hand_are_not_read(cluster):
    for tp, data in ((HAND[0], b"17"), (HAND[1], b"garbage"), (GROUP[0], b"4")):
        cluster.write(tp, data)
    database = Database(dict.fromkeys(HAND, 5))
    connector, hand, _ = join(cluster, database)
    assert connector.status.phase is Phase.STABLE
    assert {tp: offset for asked in database.asked for tp, offset in asked.items() if tp in HAND} == dict.fromkeys(HAND)
    assert {tp: offsets[0] for tp, offsets in take(hand, 30).items()} == dict.fromkeys(HAND, 5)


def test_a_partition_of_which_the_listener_does_not_say_starts_nowhere_and_the_others_flow(cluster):
    database = Database({HAND[0]: 5})
    connector, hand, group = join(cluster, database)
    assert take(hand, 15).keys() == {HAND[0]}
    assert len(take(group, 40)) == 2
    error = "hand/1: the listener's starting_offsets does not say, and offsets.by.hand names it"
    eventually(lambda: error in str(connector.status.error))
    database.offsets[HAND[1]] = 18
    assert take(hand, 2) == {HAND[1]: [18, 19]}


def test_a_member_without_such_a_listener_is_refused_before_it_registers(cluster):
    connector = cluster.connector()
    with pytest.raises(ConfigError, match=r"offsets.by.hand=.?hand.?: needs a listener whose starting_offsets says"):
        connector.create_message_streams({"hand": 1})
    assert not cluster.admin.exists("/consumers/g")
    connector.set_rebalance_listener(Database(dict.fromkeys(HAND, 5)))
    connector.create_message_streams({"hand": 1})


@pytest.mark.parametrize("names", ["", ",", "a,,b", "a b", "a/b", "..", "a,", "ü"])
def test_a_value_without_topics_is_refused(names):
    with pytest.raises(ConfigError, match=r"offsets\.by\.hand"):
        ConsumerConfig.load(zookeeper_connect="z", group_id="g", offsets_by_hand=names)


def test_names_may_have_blanks_around_them():
    config = ConsumerConfig.load(zookeeper_connect="z", group_id="g", offsets_by_hand=" a , b.c ")
    assert config.topics_by_hand == {"a", "b.c"}
    assert ConsumerConfig.load(zookeeper_connect="z", group_id="g").topics_by_hand == set()


def test_a_live_reset_that_names_them_is_refused_and_one_of_the_others_is_followed():
    cluster = MemberCluster({"hand": 2, "group": 2}, offsets_by_hand="hand", consumer_timeout_ms=5000)
    cluster.produce(20, *HAND, *GROUP)
    connector, hand, group = join(cluster, Database(dict.fromkeys(HAND, 5)))

    def reset(offsets):
        plan = make_plan(cluster.admin, "g", read_standings(cluster.admin, "g"), offsets)
        return write_live(cluster.admin, plan)

    assert len(take(hand, 30)) == len(take(group, 40)) == 2
    connector.commit_offsets()
    with pytest.raises(ResetRequestError, match=r"it keeps the offsets of hand by hand: offsets\.by\.hand"):
        reset({HAND[0]: 0, GROUP[0]: 0})
    assert connector.position(HAND[0]) == 20
    reset({GROUP[0]: 15})
    assert take(group, 5) == {GROUP[0]: [15, 16, 17, 18, 19]}
    assert connector.position(HAND[0]) == 20
    cluster.close()
