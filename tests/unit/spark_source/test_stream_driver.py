"""The planning of a stream's batches, one behaviour a test; the worlds of tests/simulation mix the behaviours."""

import logging

import pytest

from legacy_consumer.errors import BrokersUnavailableError, OffsetOutOfRangeError
from spark_source.errors import CheckpointError, DataLossError, LiveGroupError, RangeReadError
from spark_source.messages import reader
from spark_source.messages.batch import RangePartition, read_range
from spark_source.messages.options import parse_message_options
from spark_source.messages.ranges import OffsetRange
from spark_source.messages.reader import read_what_is_left
from spark_source.messages.stream_driver import LOWER_END_S, StreamDriver
from spark_source.messages.stream_offsets import NOT_BEGUN, StreamOffsets
from tests.support.memory_cluster import GuardedStore
from tests.support.planned_cluster import Brokers, Reachable, Scene
from zk_layout.errors import ConnectionLostError, MalformedZnodeError, NotPermittedError
from zk_layout.memory_store import MemoryStore
from zk_layout.model import TopicPartition

A, B, U = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.fixture
def scene():
    return Scene()


def planned(driver, start, end):
    return [(each.partition, each.start, each.end) for each in driver.tasks(start, end)[0]]


def test_the_first_batch_says_itself_where_it_begins(scene):
    scene.topic("t", (10, 100), (0, 50))
    scene.commit(A, 40)
    driver = scene.driver()
    end = driver.advance(NOT_BEGUN, 30)
    assert planned(driver, NOT_BEGUN, end) == [(A, 40, 57), (B, 0, 13)]
    # a repeated batch is the same, whatever the group commits meanwhile
    scene.operator.set_data("/consumers/g/offsets/t/0", b"90")
    assert planned(scene.driver(), NOT_BEGUN, end) == [(A, 40, 57), (B, 0, 13)]


@pytest.mark.parametrize(("time_ms", "begins"), [("500", [3] * 50), ("501", list(range(5, 55)))])
def test_where_a_time_begins_is_asked_for_all_partitions_at_once(scene, time_ms, begins):
    scene.topic("t", *((0, 5 + n) for n in range(50)))
    scene.operator.create("/brokers/ids/0", b'{"version":4,"host":"h","port":1,"endpoints":["PLAINTEXT://h:1"]}')
    end = scene.driver(startingOffsets=time_ms).advance(NOT_BEGUN, None)
    assert [end.begins[tp] for tp in sorted(end.begins)] == begins
    assert scene.brokers.questions == 1


def test_a_gap_that_retention_made_is_skipped_in_one_step_and_takes_no_share(scene, caplog):
    scene.topic("t", (19_900, 20_000), (0, 1000))
    scene.commit(A, 100)
    driver = scene.driver(failOnDataLoss="false")
    end = driver.advance(NOT_BEGUN, 110)
    assert planned(driver, NOT_BEGUN, end) == [(A, 19_900, 19_910), (B, 0, 100)]
    assert [record.message for record in caplog.records if "lost" in record.message] == [
        "lost: t/0: 19800 offsets from 100 on are gone, the log holds 19900 to 20000"
    ]
    with pytest.raises(DataLossError, match="19800 offsets from 100 on are gone"):
        scene.driver().advance(NOT_BEGUN, None)


def test_an_added_topic_begins_where_its_log_does_or_where_the_group_stands(scene):
    scene.topic("t", (0, 10))
    scene.topic("u", (4000, 5000))
    first = scene.driver().advance(NOT_BEGUN, None)
    driver = scene.driver("t,u")
    assert planned(driver, first, driver.advance(first, 1000)) == [(U, 4000, 5000)]
    scene.commit(U, 4900)
    driver = scene.driver("t,u")
    assert planned(driver, first, driver.advance(first, 1000)) == [(U, 4900, 5000)]


def test_an_added_partition_begins_at_its_logs_start_with_any_committed_offset(scene):
    scene.topic("t", (0, 10))
    first = scene.driver().advance(NOT_BEGUN, None)
    scene.operator.set_data("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0],"1":[0]}}')
    scene.brokers.logs[B] = (0, 8)
    scene.commit(B, 4)  # as this query itself may have done, if its checkpoint is an older one
    driver = scene.driver()
    assert planned(driver, first, driver.advance(first, None)) == [(B, 0, 8)]


def test_a_partition_that_the_options_name_later_begins_where_the_group_stands(scene):
    scene.topic("t", (0, 10), (0, 8), (3, 8))
    first = scene.driver(None, partitions='{"t": [0]}').advance(NOT_BEGUN, None)
    scene.commit(B, 4)  # by the member that has read the partition until now
    driver = scene.driver(None, partitions='{"t": [0, 1, 2]}')
    assert planned(driver, first, driver.advance(first, None)) == [(B, 4, 8), (TopicPartition("t", 2), 3, 8)]


def test_partitions_without_a_leader_are_waited_for_once_left_out_and_read_on_where_they_stopped(scene, caplog):
    scene.topic("t", (0, 10), (0, 20))
    driver = scene.driver()
    end = driver.advance(NOT_BEGUN, None)
    begin, _ = scene.brokers.logs.pop(B)  # the partition's broker restarts
    scene.brokers.logs[A] = (0, 500)
    for more, waited_s in ((500, 30), (600, 0), (700, 0)):
        scene.brokers.logs[A] = (0, more)
        asked_at, start = scene.brokers.now, end
        end = driver.advance(start, None)
        assert planned(driver, start, end) == [(A, start.offsets[A], more)]
        assert end.offsets[B] == 20
        assert scene.brokers.now - asked_at == pytest.approx(waited_s, abs=0.3)
    assert [each.split(";")[0] for each in caplog.messages] == ["no broker says where the log ends of 1: t/1"]
    scene.brokers.logs[B] = (begin, 30)
    assert planned(driver, end, driver.advance(end, None)) == [(B, 20, 30)]


def test_brokers_that_do_not_answer_end_no_stream_that_has_begun_but_one_that_reads_what_there_is(scene):
    scene.topic("t", (0, 10), (0, 20))
    driver = scene.driver()
    end = driver.advance(NOT_BEGUN, None)
    latest = scene.brokers.latest

    def silent(partitions):
        raise BrokersUnavailableError("no answer from the brokers")

    scene.brokers.latest = silent
    assert driver.advance(end, None) is end
    with pytest.raises(BrokersUnavailableError):
        scene.driver().advance(NOT_BEGUN, None)
    scene.brokers.latest = latest
    scene.brokers.logs[B] = (0, 25)
    until_now = scene.driver()
    until_now.stop_at_present()
    scene.brokers.latest = silent
    with pytest.raises(BrokersUnavailableError):
        until_now.advance(end, None)
    scene.brokers.latest = latest
    assert planned(driver, end, driver.advance(end, None)) == [(B, 20, 25)]


def test_a_partition_whose_leader_goes_while_a_batch_is_planned_is_left_out_of_it(scene):
    scene.topic("t", (0, 10), (0, 20))
    driver = scene.driver()
    end = driver.advance(NOT_BEGUN, None)
    scene.brokers.logs.update({A: (0, 15), B: (0, 25)})
    earliest = scene.brokers.earliest
    scene.brokers.earliest = lambda partitions: earliest(set(partitions) - {B})
    again = driver.advance(end, None)
    assert again.offsets == {A: 15, B: 20}
    scene.brokers.earliest = earliest
    assert planned(driver, again, driver.advance(again, None)) == [(B, 20, 25)]


def test_a_topic_made_anew_while_the_query_is_stopped_is_read_from_its_begin_and_not_committed_before(scene):
    scene.topic("t", (0, 1000))
    end = scene.driver().advance(NOT_BEGUN, None)
    scene.delete("t")
    scene.topic("t", (0, 1500))
    with pytest.raises(DataLossError, match="was deleted and created again: whatever it had from 1000 on was not read"):
        scene.driver().advance(end, None)
    driver = scene.driver(failOnDataLoss="false")
    again = driver.advance(end, None)
    assert planned(driver, end, again) == [(A, 0, 1500)]
    assert scene.committed(A) is None
    driver.advance(again, None)
    assert scene.committed(A) == 1500


def test_a_topic_made_anew_behind_a_plan_is_named_with_the_batch_that_may_hold_its_messages(scene, caplog):
    scene.topic("t", (0, 1000))
    driver = scene.driver(failOnDataLoss="false")
    end = driver.advance(NOT_BEGUN, None)
    assert planned(driver, NOT_BEGUN, end) == [(A, 0, 1000)]
    scene.delete("t")
    scene.topic("t", (0, 1500))  # the tasks of the batch read only after this
    assert planned(driver, end, driver.advance(end, None)) == [(A, 0, 1500)]
    [message] = caplog.messages
    assert message == (
        "lost: t/0: its topic was deleted and created again: all before 1000 was read, and nothing that came later; "
        "the batch before may hold messages of the new topic"
    )


@pytest.mark.parametrize(
    ("choice", "absent"),
    [
        ({"topics": "t,y,z"}, ["topic y", "topic z"]),
        ({"topics": None, "partitions": '{"t": [0, 5], "z": [0]}'}, ["partition t/5", "topic z"]),
        ({"topics": None, "whitelist": "t|z"}, []),
    ],
)
def test_a_query_that_was_started_again_reports_once_what_it_is_to_read_and_does_not_exist(
    scene, caplog, choice, absent
):
    scene.topic("t", (0, 50))
    begun = scene.driver().advance(NOT_BEGUN, None)
    driver = scene.driver(**choice)
    for _ in range(3):
        assert driver.advance(begun, None) is begun
    scene.topic("z", (0, 7))
    end = driver.advance(begun, None)
    assert planned(driver, begun, end) == [(TopicPartition("z", 0), 0, 7)]
    assert [record.message for record in caplog.records if "not exist" in record.message] == [
        f"{each} does not exist: nothing of it is read until it does" for each in absent
    ]


def test_a_topic_that_is_not_read_any_more_is_left_alone_and_kept_in_mind(scene):
    scene.topic("t", (0, 100))
    scene.topic("u", (0, 100))
    driver = scene.driver("t,u", claimOwnership="true")
    both = driver.advance(NOT_BEGUN, None)
    driver.close()
    scene.commit(U, 20)
    scene.brokers.logs[A] = (0, 105)
    driver = scene.driver("t", claimOwnership="true")
    end = driver.advance(both, None)
    assert (scene.committed(A), scene.committed(U)) == (100, 20)
    assert end.offsets == {A: 105, U: 100}
    driver.close()


def test_a_topic_that_is_not_read_any_more_is_no_loss_when_it_is_deleted(scene):
    scene.topic("t", (0, 100))
    scene.topic("u", (0, 100))
    both = scene.driver("t,u").advance(NOT_BEGUN, None)
    scene.delete("u")
    assert scene.driver("t").advance(both, None).offsets == {A: 100}
    with pytest.raises(DataLossError, match="u/0: its topic is gone"):
        scene.driver("t,u").advance(both, None)


def test_a_claiming_query_continues_without_a_deleted_topic(scene):
    scene.topic("t", (0, 50))
    scene.topic("u", (0, 50))
    driver = scene.driver("t,u", claimOwnership="true", failOnDataLoss="false")
    both = driver.advance(NOT_BEGUN, None)
    scene.delete("u")
    scene.brokers.logs[A] = (0, 60)
    end = driver.advance(both, None)
    assert planned(driver, both, end) == [(A, 50, 60)]
    assert driver.advance(end, None) is end
    assert (scene.committed(A), scene.committed(U)) == (60, None)
    scene.topic("u", (0, 7))
    assert planned(driver, end, driver.advance(end, None)) == [(U, 0, 7)]


def test_a_log_end_that_is_lower_for_a_while_is_waited_for(scene, caplog):
    scene.topic("t", (0, 20_500), (0, 10))
    driver = scene.driver()
    end = driver.advance(NOT_BEGUN, None)
    scene.brokers.logs[A] = (0, 20_000)
    scene.brokers.later[scene.brokers.now + LOWER_END_S - 5] = lambda: scene.brokers.logs.update({A: (0, 20_510)})
    again = driver.advance(end, None)
    assert planned(driver, end, again) == [(A, 20_500, 20_510)]
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [
        "t/0: its log ends at 20000, before the wanted 20500: asked again for 60 s"
    ]


def test_a_log_that_stays_shorter_has_lost_messages_and_continues_at_the_lowest_end_seen(scene):
    scene.topic("t", (0, 20_500))
    end = scene.driver().advance(NOT_BEGUN, None)
    scene.brokers.logs[A] = (0, 20_000)
    scene.brokers.later[LOWER_END_S / 2] = lambda: scene.brokers.logs.update({A: (0, 20_300)})
    driver = scene.driver(failOnDataLoss="false")
    again = driver.advance(end, None)
    assert planned(driver, end, again) == [(A, 20_000, 20_300)]
    with pytest.raises(DataLossError, match="20500 lies beyond its end"):
        scene.driver().advance(end, None)


def test_a_query_that_reads_committed_messages_from_now_on_waits_for_a_transaction_and_has_lost_nothing(scene):
    scene.topic("t", (0, 100), (0, 10))
    end = scene.driver().advance(NOT_BEGUN, None)
    scene.brokers.logs[A] = (0, 120)
    scene.brokers.open_from[A] = 90
    driver = scene.driver(**{"isolation.level": "read_committed"})
    assert driver.advance(end, None) is end
    assert scene.committed(A) == 100
    del scene.brokers.open_from[A]
    assert planned(driver, end, driver.advance(end, None)) == [(A, 100, 120)]
    assert scene.brokers.now < 1


def test_available_now_reads_messages_of_a_late_answer_and_nothing_newer(scene):
    scene.topic("t", (0, 100))
    end = scene.driver().advance(NOT_BEGUN, None)
    scene.brokers.logs[A] = (0, 90)
    scene.brokers.later[10.0] = lambda: scene.brokers.logs.update({A: (0, 120)})
    driver = scene.driver()
    driver.stop_at_present()
    again = driver.advance(end, None)
    assert planned(driver, end, again) == [(A, 100, 120)]
    scene.brokers.logs[A] = (0, 130)
    scene.topic("u", (0, 5))
    assert driver.advance(again, None) is again


def test_a_checkpoint_of_version_1_is_gone_on_from_and_marked(scene):
    scene.topic("t", (0, 100))
    driver = scene.driver()
    old = StreamOffsets({A: 60})
    end = driver.advance(old, None)
    assert scene.committed(A) is None  # an old checkpoint does not identify the topic, so the driver commits nothing
    assert planned(driver, old, end) == [(A, 60, 100)]
    assert list(end.topics) == ["t"]
    driver.advance(end, None)
    assert scene.committed(A) == 100


def test_a_checkpoint_with_a_partition_that_the_topic_lacks_is_refused_and_nothing_is_committed(scene):
    scene.topic("t", (0, 100), (0, 100))
    with pytest.raises(CheckpointError, match="names t/9, a partition that the topic does not have"):
        scene.driver().advance(StreamOffsets({A: 5, TopicPartition("t", 9): 5}), None)
    assert scene.committed(A) is None


def test_a_member_that_comes_beside_a_stream_ends_it_before_it_overwrites_anything(scene):
    scene.topic("t", (0, 100))
    driver = scene.driver()
    end = driver.advance(NOT_BEGUN, 10)
    end = driver.advance(end, 10)
    assert scene.committed(A) == 10
    scene.operator.create("/consumers/g/ids/somebody", b"{}", ephemeral=True, make_parents=True)
    with pytest.raises(LiveGroupError):
        driver.advance(end, 10)
    assert scene.committed(A) == 10


def test_a_query_whose_registration_was_deleted_reads_and_commits_on(scene):
    scene.topic("t", (0, 10))
    driver = scene.driver(claimOwnership="true")
    end = driver.advance(NOT_BEGUN, None)
    [member] = scene.operator.get_children("/consumers/g/ids")
    scene.operator.delete(f"/consumers/g/ids/{member}")
    scene.brokers.logs[A] = (0, 20)
    start, end = end, driver.advance(end, None)
    assert planned(driver, start, end) == [(A, 10, 20)]
    driver.advance(end, None)
    assert scene.operator.get_data("/consumers/g/offsets/t/0").data == b"20"


def test_without_zookeeper_no_batch_is_planned_and_with_it_the_group_is_claimed_again(scene):
    scene.topic("t", (0, 100))
    driver = scene.driver(claimOwnership="true")
    end = driver.advance(NOT_BEGUN, 10)
    scene.server.suspend(scene.store)
    scene.server.expire(scene.store.session_id)
    assert driver.advance(end, 10) is end
    scene.server.resume(scene.store)
    assert driver.advance(end, 10).offsets == {A: 20}
    assert scene.committed(A) == 10
    assert scene.operator.get_children("/consumers/g/owners/t") == ("0",)


def test_available_now_does_not_end_unfinished_because_zookeeper_is_away(scene):
    scene.topic("t", (0, 100))
    driver = scene.driver()
    end = driver.advance(NOT_BEGUN, 10)
    driver = scene.driver()
    for ask in (driver.stop_at_present, lambda: driver.advance(end, None)):
        scene.server.suspend(scene.store)
        scene.brokers.later[scene.brokers.now + 7] = lambda: scene.server.resume(scene.store)
        found = ask()
    assert found.offsets == {A: 100}
    scene.server.suspend(scene.store)
    with pytest.raises(ConnectionLostError):
        driver.advance(end, None)


def test_a_batch_waits_for_enough_to_read_and_not_for_ever(scene):
    scene.topic("t", (0, 1))
    driver = scene.driver(minOffsetsPerTrigger="100", maxTriggerDelay="10m")
    end = driver.advance(NOT_BEGUN, None)
    scene.brokers.logs[A] = (0, 50)
    assert driver.advance(end, None) is end
    scene.brokers.now += 599
    assert driver.advance(end, None) is end
    scene.brokers.now += 2
    end = driver.advance(end, None)
    assert end.offsets == {A: 50}
    scene.brokers.logs[A] = (0, 151)
    assert driver.advance(end, None).offsets == {A: 151}
    # with Trigger.AvailableNow the driver waits for nothing
    driver.stop_at_present()
    assert driver.advance(end, None).offsets == {A: 151}


# --- how a task goes on


def read_all(read, brokers, *, fail=False, log=None, **more):
    wanted = OffsetRange(A, 0, 10)
    return list(
        read_what_is_left(
            read, wanted, lambda: log, fail_on_data_loss=fail, patience_s=60.0, clock=brokers, **more
        )
    )  # fmt: skip


def test_a_task_waits_for_a_broker_that_says_less_than_was_planned():
    brokers = Brokers()

    def read(left):
        if brokers.now < 50:
            raise OffsetOutOfRangeError(A, 5, 0, 3)
        yield from range(left.start, left.end)

    assert read_all(read, brokers) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("fail", [True, False])
def test_messages_that_stay_beyond_the_end_count_as_lost_after_a_while(fail, caplog):
    def read(left):
        raise OffsetOutOfRangeError(A, 5, 0, 3)

    if fail:
        with pytest.raises(DataLossError):
            read_all(read, Brokers(), fail=True)
    else:
        assert read_all(read, Brokers()) == []
        assert "lost: t/0: 5 lies beyond its end, the log holds 0 to 3" in caplog.text


def test_the_tail_of_a_range_is_given_up_only_if_it_is_not_there_and_loss_is_allowed(caplog):
    def read(left):
        yield 1
        raise RangeReadError(A, 7, 10, "no message came")

    assert read_all(read, Brokers(), log=(0, 7)) == [1]
    assert "lost: t/0: 3 before 10 are not there, the log holds 0 to 7" in caplog.text
    with pytest.raises(DataLossError, match="lost: t/0: 3 before 10 are not there, the log holds 0 to 7"):
        read_all(read, Brokers(), fail=True, log=(0, 7))
    for fail, log in ((True, (0, 8)), (True, None), (False, (0, 8)), (False, None)):
        with pytest.raises(RangeReadError, match="got no further than 7 of 10: no message came"):
            read_all(read, Brokers(), fail=fail, log=log)


@pytest.mark.parametrize("fail", [True, False])
@pytest.mark.parametrize("start", [3, 8])
def test_a_planned_batch_of_a_stream_is_read_whole_or_fails_and_then_its_error_names_the_log(fail, start, monkeypatch):
    """The batch's end is in the checkpoint: if messages came back later, no batch would read them."""

    def read(left):
        if left.start > 7:
            raise OffsetOutOfRangeError(A, left.start, 0, 7)
        yield from range(left.start, 7)
        raise RangeReadError(A, 7, left.end, "no message came")

    monkeypatch.setattr(reader, "_read_with_librdkafka", lambda options, store, part, columns: read(part))
    monkeypatch.setattr(reader, "_ask_log", lambda config, store, partition: (0, 7))
    options = parse_message_options(
        {
            "zookeeper.connect": "m:1",
            "topics": "t",
            "fetcher": "librdkafka",
            "fetchTimeoutMs": "1",
            "failOnDataLoss": str(fail),
        }
    )
    task = RangePartition(OffsetRange(A, start, 10), {})
    with pytest.raises(RangeReadError, match=f"no further than {max(7, start)} of 10: the log holds 0 to 7; .* whole"):
        list(read_range(options, (), task))


def test_what_retention_deleted_of_a_planned_batch_is_lost_and_the_rest_of_it_is_read(caplog):
    def read(left):
        if left.start < 4:
            raise OffsetOutOfRangeError(A, left.start, 4, 10)
        yield from range(left.start, left.end)

    assert read_all(read, Brokers(), must_reach_end=True) == [4, 5, 6, 7, 8, 9]
    assert "lost: t/0: 4 offsets from 0 on are gone, the log holds 4 to 10" in caplog.text


def test_a_topic_of_a_name_that_no_broker_takes_ends_no_stream_that_chooses_by_a_filter(scene):
    """Any client can create such a topic in ZooKeeper, and no broker reports where its log ends."""
    scene.topic("t", (0, 10))
    parsed = parse_message_options({"zookeeper.connect": "m:1", "whitelist": ".*", "startingOffsets": "latest"})
    driver = StreamDriver(parsed, Reachable(parsed, MemoryStore(scene.server), scene.brokers, scene.brokers))
    driver.open()
    begin = driver.advance(NOT_BEGUN, None)
    scene.operator.create(f"/brokers/topics/{'x' * 600}", b'{"version":1,"partitions":{"0":[0]}}')
    assert driver.advance(begin, None).offsets == begin.offsets == {A: 10}


def test_a_topic_that_becomes_unreadable_ends_a_stream_with_that_reason_and_not_with_another_checkpoint(scene):
    scene.topic("t", (0, 5))
    scene.topic("u", (0, 7))
    driver = scene.driver(topics=None, whitelist=".*")
    end = driver.advance(NOT_BEGUN, None)
    sound = scene.operator.get_data("/brokers/topics/u").data
    scene.operator.set_data("/brokers/topics/u", b"no JSON")
    with pytest.raises(MalformedZnodeError, match="/brokers/topics/u"):
        driver.advance(end, None)
    scene.operator.set_data("/brokers/topics/u", sound)
    assert driver.advance(end, None) == end


@pytest.mark.parametrize("kind", [MalformedZnodeError, NotPermittedError])
def test_a_topic_that_cannot_be_read_is_left_out_by_a_filter_and_an_error_by_name(scene, kind):
    scene.topic("t", (0, 5))
    scene.topic("u", (0, 7))
    forbidden = ["/brokers/topics/u"] if kind is NotPermittedError else []
    if kind is MalformedZnodeError:
        scene.operator.set_data("/brokers/topics/u", b"no JSON")
    for chosen in ({"whitelist": ".*"}, {"topics": "t,u"}):
        options = parse_message_options({"zookeeper.connect": "m:1", **chosen})
        cluster = scene.cluster(options, GuardedStore(scene.server, forbidden))
        cluster.open()
        if "whitelist" in chosen:
            assert cluster.partitions() == [A]
        else:
            with pytest.raises(kind, match="/brokers/topics/u"):
                cluster.partitions()


def test_a_topic_that_a_filter_chooses_later_is_read_from_its_begin(scene):
    scene.topic("t", (0, 10))
    given = {"zookeeper.connect": "m:1", "whitelist": "t|u", "startingOffsets": "latest"}
    parsed = parse_message_options(given)
    driver = StreamDriver(parsed, Reachable(parsed, MemoryStore(scene.server), scene.brokers, scene.brokers))
    driver.open()
    begin = driver.advance(NOT_BEGUN, None)
    assert begin.offsets == {A: 10}
    scene.topic("u", (0, 3))
    assert planned(driver, begin, driver.advance(begin, None)) == [(U, 0, 3)]
