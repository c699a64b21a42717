"""Seeded worlds of a streaming query: it commits nothing ahead of the sink, loses no row, and makes progress."""

from dataclasses import replace

import pytest

from spark_source.messages import (
    cluster,
    group_claim,
    group_progress,
    reader,
    stream,
    stream_driver,
    stream_offsets,
    stream_plan,
)
from tests.simulation import stream_world
from tests.simulation.stream_world import explore
from zk_layout.model import TopicPartition

SEEDS = 300
SEEDS_FOR_A_DEFECT = 2000


def test_no_world_breaks_a_promise():
    assert explore(range(SEEDS)) is None


# --- earlier defects, put back: some seed must find each


def commits_for_an_earlier_topic(patch):
    patch(stream_driver, "may_commit", lambda _, standing: {**standing.going_on, **standing.anew})


def commits_for_topics_that_are_not_read_any_more(patch):
    patch(stream_driver, "may_commit", lambda _, standing: {**standing.going_on, **standing.aside})


def commits_for_topics_that_are_gone(patch):
    patch(stream_driver, "may_commit", lambda _, standing: {**standing.going_on, **standing.gone})


def commits_the_end_of_a_batch_when_it_is_planned(patch):
    plan = stream_driver.StreamDriver._plan

    def plan_and_commit(self, start, most):
        end = plan(self, start, most)
        self._progress.commit({tp: offset for tp, offset in end.offsets.items() if tp in start.offsets})
        return end

    patch(stream_driver.StreamDriver, "_plan", plan_and_commit)


def knows_no_topic_from_another_of_its_name(patch):
    patch(stream_plan, "metadata_of", lambda _: "topic-czxid=0xffffffff")


def takes_a_lower_end_for_a_loss_at_once(patch):
    patch(stream_driver, "LOWER_END_S", 0.0)


def takes_an_open_transaction_for_a_shorter_log(patch):
    patch(cluster.Cluster, "undecided", lambda *_: {})


def cuts_a_planned_range_to_what_a_broker_says(patch):
    read = stream_world.World._read

    def read_less(self, wanted):
        if wanted.partition in self.logs:
            end = min(wanted.end, self.said_end(wanted.partition))
            wanted = replace(wanted, end=max(end, wanted.start))
        return read(self, wanted)

    patch(stream_world.World, "_read", read_less)


def gives_up_at_once_what_lies_beyond_a_lower_end(patch):
    patient = reader.read_what_is_left
    patch(reader, "read_what_is_left", lambda *given, **named: patient(*given, **{**named, "patience_s": 0.0}))


def reads_new_partitions_from_0(patch):
    patch(
        stream_driver.StreamDriver,
        "_begins",
        lambda _self, start, standing: dict.fromkeys(standing.fresh, 0) if start.begun else {},
    )


def counts_deleted_offsets_as_work(patch):
    plan = stream_plan.plan_batch
    patch(
        stream_driver,
        "plan_batch",
        lambda start, standing, found, most: plan(start, standing, replace(found, earliest={}), most),
    )


def dies_of_an_expired_session(patch):
    patch(group_claim, "_TRIES", 1)
    patch(stream_driver, "_ZOOKEEPER_AWAY", ())


def forgets_where_a_batch_began(patch):
    dropped = stream_offsets.to_json

    def without_begins(reached):
        return dropped(replace(reached, begins={}))

    patch(stream, "to_json", without_begins)


def takes_trigger_once_for_any_other(patch):
    patch(stream, "ReadAllAvailable", type(None))


def believes_what_stands_in_a_checkpoint(patch):
    def believed(document):
        return {
            TopicPartition(topic, int(number)): offset
            for topic, own in document.items()
            for number, offset in own.items()
        }

    patch(stream_offsets, "_offsets", believed)


def believes_partitions_that_a_topic_never_had(patch):
    sort = stream_plan.sort_partitions

    def sort_all(start, topics):
        has = {tp: offset for tp, offset in start.offsets.items() if tp.partition < 9}
        standing = sort(replace(start, offsets=has), topics)
        return replace(standing, going_on={**standing.going_on, **dict(start.offsets.items() - has.items())})

    patch(stream_driver, "sort_partitions", sort_all)


def does_not_look_for_members_that_come_later(patch):
    patch(group_progress, "refuse_members", lambda *_: None)


DEFECTS = [
    commits_for_an_earlier_topic,
    commits_for_topics_that_are_not_read_any_more,
    commits_for_topics_that_are_gone,
    commits_the_end_of_a_batch_when_it_is_planned,
    knows_no_topic_from_another_of_its_name,
    takes_a_lower_end_for_a_loss_at_once,
    takes_an_open_transaction_for_a_shorter_log,
    cuts_a_planned_range_to_what_a_broker_says,
    gives_up_at_once_what_lies_beyond_a_lower_end,
    reads_new_partitions_from_0,
    counts_deleted_offsets_as_work,
    dies_of_an_expired_session,
    forgets_where_a_batch_began,
    takes_trigger_once_for_any_other,
    believes_what_stands_in_a_checkpoint,
    believes_partitions_that_a_topic_never_had,
    does_not_look_for_members_that_come_later,
]


@pytest.mark.parametrize("put_back", DEFECTS, ids=lambda each: each.__name__)
def test_some_world_finds_what_went_wrong_once(monkeypatch, put_back):
    put_back(monkeypatch.setattr)
    assert explore(range(SEEDS_FOR_A_DEFECT)) is not None
