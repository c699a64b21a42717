"""Topics that an operator deletes while a group consumes them, and creates again under the same name."""

import logging

import pytest

from rebalance.events import CloseRequested
from tests.support.group_members import GROUP, Group, RecordingDelivery
from zk_layout.codecs import encode_registration, encode_topic
from zk_layout.errors import ConnectionLostError
from zk_layout.memory_store import MemoryStore
from zk_layout.model import ConsumerRegistration, SubscriptionPattern, TopicAssignment, TopicPartition
from zk_layout.paths import ConsumerIdPath
from zk_layout.store import CreateOp, DeleteOp

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def consumed(group):
    member = group.join("a", {"t": 1, "u": 1})
    group.settle()
    member.delivery.log.clear()
    return member


def test_a_deleted_topic_is_buried_without_a_commit_and_its_owner_znodes_go():
    group = Group({"t": 2, "u": 1})
    member = consumed(group)
    group.admin.delete("/brokers/topics/t")
    group.settle()
    assert ("bury", (T0, T1)) in member.delivery.log
    assert not [entry for entry in member.delivery.log if entry[0] == "end" and entry[1]]
    assert member.owned == [U0]
    assert group.owners("t") == {}


def test_topics_of_a_member_whose_id_another_one_has_taken_are_not_taken_for_deleted_ones():
    """Regression: as no member subscribed to the topics any more, the reader did not read them; no commit followed."""
    group = Group({"t": 2, "u": 1})
    member = consumed(group)
    thief = MemoryStore(group.server)
    thief.start()
    path = ConsumerIdPath(GROUP, member.consumer_id).path
    group.admin.delete(path)
    registration = ConsumerRegistration(SubscriptionPattern.STATIC, (("u", 1),), 0)
    thief.create(path, encode_registration(registration), ephemeral=True)
    group.pass_time(1)
    assert [entry for entry in member.delivery.log if entry[0] in ("bury", "end")] == [("end", (T0, T1, U0))]
    assert member.owned == []


def test_messages_in_hand_of_a_deleted_topic_delay_nothing():
    group = Group({"t": 2, "u": 1})
    member = consumed(group)
    member.delivery.in_hand = {T0}
    group.admin.delete("/brokers/topics/t")
    group.settle()
    assert member.owned == [U0]


def test_a_topic_that_comes_back_is_begun_anew():
    group = Group({"t": 2, "u": 1})
    member = consumed(group)
    group.admin.delete("/brokers/topics/t")
    group.settle()
    group.create_topic("t", 2)
    group.settle()
    assert member.owned == [T0, T1, U0]
    assert [entry for entry in member.delivery.log if entry[1]][-1] == ("begin", (T0, T1))


def test_a_topic_replaced_before_the_member_noticed_begins_anew_with_its_owner_znodes_kept():
    group = Group({"t": 2, "u": 1})
    member = consumed(group)
    before = group.admin.exists("/consumers/g/owners/t/0").czxid
    data = encode_topic(TopicAssignment({0: (0,), 1: (0,)}))
    group.admin.multi([DeleteOp("/brokers/topics/t"), CreateOp("/brokers/topics/t", data)])
    group.settle()
    assert member.delivery.log == [("bury", (T0, T1)), ("begin", (T0, T1))]
    assert group.admin.exists("/consumers/g/owners/t/0").czxid == before


def test_a_deletion_is_reported_once(caplog):
    group = Group({"t": 2, "u": 1})
    consumed(group)
    with caplog.at_level(logging.WARNING):
        group.admin.delete("/brokers/topics/t")
        group.pass_time(120)
    [said] = [record.message for record in caplog.records if "was deleted" in record.message]
    assert said.startswith("g_a: topic t was deleted, its streams wait; its committed offsets stay, and are not used")


def test_added_partitions_bury_nothing():
    group = Group({"t": 2, "u": 1})
    member = consumed(group)
    group.add_partitions("t", 3)
    group.settle()
    assert "bury" not in [what for what, _ in member.delivery.log]


def test_a_break_of_the_connection_in_which_a_topic_was_replaced_is_no_hiding_place():
    group = Group({"t": 2, "u": 1})
    member = consumed(group)
    group.server.suspend(member.store)
    data = encode_topic(TopicAssignment({0: (0,), 1: (0,)}))
    group.admin.multi([DeleteOp("/brokers/topics/t"), CreateOp("/brokers/topics/t", data)])
    group.server.resume(member.store)
    group.settle()
    assert ("bury", (T0, T1)) in member.delivery.log
    assert member.owned == [T0, T1, U0]


class ReplacingDelivery(RecordingDelivery):
    """When partitions end, an operator replaces their topic before the request of the last commit arrives."""

    def __init__(self, group, store):
        super().__init__()
        self._group = group
        self._store = store
        self.owners_at_disown = None
        self.failures = []

    def end(self, partitions):
        yield from super().end(partitions)
        if partitions and self.owners_at_disown is None:
            data = encode_topic(TopicAssignment({0: (0,), 1: (0,)}))
            self._group.admin.multi([DeleteOp("/brokers/topics/t"), CreateOp("/brokers/topics/t", data)])
            self._store.exists("/consumers")

    def disown(self, partitions):
        if self.failures:
            raise self.failures.pop()
        super().disown(partitions)
        self.owners_at_disown = self._group.owners("t")


@pytest.mark.parametrize("reason", ["leaves", "leaves in haste", "another member joins"])
@pytest.mark.parametrize("failures", [0, 1])
def test_a_last_commit_just_after_its_topic_was_replaced_is_disowned_before_the_release(reason, failures):
    group = Group({"t": 2, "u": 1})
    member = consumed(group)
    delivery = ReplacingDelivery(group, member.store)
    runner = member.coordinator._runner
    member.delivery = runner._delivery = runner._reconciler._delivery = delivery
    before = group.owners("t")
    # a member that leaves in haste does not try again
    delivery.failures = [ConnectionLostError("no answer")] * (0 if reason == "leaves in haste" else failures)
    if reason == "another member joins":
        group.join("b", {"t": 1})
        ended = (T1,)
    else:
        member.coordinator.post(CloseRequested(0 if reason == "leaves in haste" else 5000))
        ended = (T0, T1)
    group.pass_time(10)
    assert ("disown", ended) in delivery.log
    assert delivery.owners_at_disown == before


def test_a_partition_that_stays_after_its_last_commit_begins_anew_behind_the_disowning():
    group = Group({"t": 2, "u": 1})
    member = consumed(group)
    delivery = ReplacingDelivery(group, member.store)
    runner = member.coordinator._runner
    member.delivery = runner._delivery = runner._reconciler._delivery = delivery
    other = group.join("b", {"t": 1})
    delivery.failures = [ConnectionLostError("no answer")]
    for _ in range(50):
        if delivery.failures:
            other.coordinator.turn()
            member.coordinator.turn()
    assert not delivery.failures
    group.members.remove(other)
    group.server.expire(other.store.session_id)
    group.pass_time(10)
    assert delivery.log[-2:] == [("disown", (T1,)), ("begin", (T0, T1))]
    assert delivery.flowing == {T0, T1}


def test_a_last_commit_of_a_topic_that_only_got_partitions_stands():
    group = Group({"t": 2, "u": 1})
    member = consumed(group)
    group.join("b", {"t": 1})
    group.add_partitions("t", 3)
    group.settle()
    assert [what for what, _ in member.delivery.log if what == "disown"] == []
