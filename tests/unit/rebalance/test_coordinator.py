"""Members over an in-memory ZooKeeper: the partitions that they own, and the znodes that they read or leave alone."""

import pytest

from rebalance.errors import PartlyBegunError
from rebalance.events import SESSION_EVENTS, Doubted, Drained
from rebalance.machine import Phase
from tests.support.group_members import GROUP, Group
from zk_layout.errors import ConnectionLostError
from zk_layout.memory_store import Refusal
from zk_layout.model import SubscriptionPattern, TopicPartition
from zk_layout.store import WatchEvent


def partitions(topic, *numbers):
    return [TopicPartition(topic, n) for n in numbers]


@pytest.fixture
def group():
    return Group({"t": 8})


def test_the_first_member_takes_everything(group):
    a = group.join("a", {"t": 2})
    group.settle()
    assert a.phase is Phase.STABLE
    assert a.owned == partitions("t", *range(8))
    assert group.owners("t") == {n: f"g_a-{0 if n < 4 else 1}" for n in range(8)}
    assert a.delivery.flowing == set(a.owned)


def test_a_second_member_takes_its_share_and_the_other_partitions_keep_flowing(group):
    a = group.join("a", {"t": 1})
    group.settle()
    a.delivery.log.clear()
    b = group.join("b", {"t": 1})
    group.settle()
    assert a.owned == partitions("t", 0, 1, 2, 3)
    assert b.owned == partitions("t", 4, 5, 6, 7)
    assert a.delivery.log == [
        ("stop", tuple(partitions("t", 4, 5, 6, 7))),
        ("end", tuple(partitions("t", 4, 5, 6, 7))),
        ("begin", ()),
    ], "kept partitions are not touched"


def test_a_kept_owner_znode_is_the_same_znode_as_before(group):
    group.join("a", {"t": 1})
    group.settle()
    before = group.admin.exists("/consumers/g/owners/t/0")
    group.join("b", {"t": 1})
    group.settle()
    assert group.admin.exists("/consumers/g/owners/t/0").czxid == before.czxid


def test_a_member_that_leaves_gives_back_its_share_in_one_request(group):
    a = group.join("a", {"t": 1})
    b = group.join("b", {"t": 1})
    group.settle()
    group.server.requests.clear()
    a.coordinator.close(5)
    while not a.coordinator.is_closed:
        a.coordinator.turn()
    assert group.server.requests["multi"] == 1
    group.settle()
    assert b.owned == partitions("t", *range(8))
    assert group.admin.get_children("/consumers/g/ids") == ("g_b",)


def test_a_killed_member_is_replaced_when_its_session_ends(group):
    a = group.join("a", {"t": 1})
    b = group.join("b", {"t": 1})
    group.settle()
    group.members.remove(a)
    group.server.expire(a.store.session_id)
    group.settle()
    assert b.owned == partitions("t", *range(8))


def test_a_rebalance_after_one_join_reads_the_list_and_one_registration(group):
    a = group.join("a", {"t": 1})
    group.settle()
    b = group.join("b", {"t": 1})
    for _ in range(100):
        if b.coordinator.turn() > 0:
            break
    group.server.requests.clear()
    for _ in range(100):
        if a.coordinator.turn() > 0:
            break
    # reads of the list of ids, of the new registration and of the owner znodes to release, then the release
    assert dict(group.server.requests) == {"get_children": 1, "multi_read": 2, "multi": 1}


def test_brokers_that_come_and_go_and_leaders_that_move_are_no_reason_to_rebalance(group):
    """Regression: every restart of a broker made the whole group rebalance."""
    a = group.join("a", {"t": 1})
    group.settle()
    a.delivery.log.clear()
    group.server.requests.clear()
    for leader in (1, 2):
        group.admin.create(f"/brokers/ids/{leader}", b"{}", make_parents=True)
        state = b'{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":%d,"isr":[1]}' % (leader, leader)
        group.admin.ensure_path("/brokers/topics/t/partitions/0/state")
        group.admin.set_data("/brokers/topics/t/partitions/0/state", state)
        group.settle()
    group.admin.delete("/brokers/ids/1")
    by_the_operator = group.server.requests.copy()
    group.settle()
    assert a.delivery.log == []
    assert a.phase is Phase.STABLE
    assert group.server.requests == by_the_operator
    assert not set(by_the_operator) & {"get_children", "multi_read", "multi"}, "the member asked for nothing"


def test_triggers_that_arrive_together_are_one_rebalance(group):
    a = group.join("a", {"t": 1})
    group.settle()
    before = a.coordinator.status.rebalances
    for name in "bcdef":
        group.join(name, {"t": 1})
    for member in group.members[1:]:
        member.coordinator.turn()
    group.settle()
    assert a.coordinator.status.rebalances - before <= 2
    assert sorted(tp for member in group.members for tp in member.owned) == partitions("t", *range(8))


def test_a_conflict_is_over_the_moment_the_owner_releases(group):
    a = group.join("a", {"t": 1})
    group.settle()
    a.delivery.in_hand = set(partitions("t", 7))
    b = group.join("b", {"t": 1})
    group.settle()
    assert b.phase is Phase.WAITING
    assert b.owned == []
    a.delivery.in_hand = set()
    a.coordinator.post(Drained())
    group.settle()
    assert b.phase is Phase.STABLE, "without any time passing"
    assert b.owned == partitions("t", 4, 5, 6, 7)


def test_messages_in_hand_delay_a_release_for_the_drain_timeout_at_most(group):
    a = group.join("a", {"t": 1})
    group.settle()
    a.delivery.in_hand = set(partitions("t", 7))
    b = group.join("b", {"t": 1})
    group.pass_time(3.5)
    assert a.owned == partitions("t", 0, 1, 2, 3)
    assert b.owned == partitions("t", 4, 5, 6, 7)


def test_partitions_that_come_back_while_draining_continue(group):
    a = group.join("a", {"t": 1})
    group.settle()
    a.delivery.in_hand = set(partitions("t", 7))
    b = group.join("b", {"t": 1})
    group.settle()
    assert set(partitions("t", 7)) & a.delivery.flowing == set()
    group.members.remove(b)
    group.server.expire(b.store.session_id)
    group.settle()
    assert a.delivery.flowing == set(partitions("t", *range(8)))
    assert ("go_on", tuple(partitions("t", 4, 5, 6, 7))) in a.delivery.log


def test_a_foreign_owner_that_never_goes_makes_the_member_degraded_and_its_end_heals_it(group):
    foreign = group.admin
    foreign.create("/consumers/g/owners/t/3", b"g_ghost-0", ephemeral=True, make_parents=True)
    a = group.join("a", {"t": 1})
    group.pass_time(9)
    assert a.phase is Phase.DEGRADED
    assert "t/3 by g_ghost-0" in str(a.coordinator.status.error)
    foreign.delete("/consumers/g/owners/t/3")
    group.settle()
    assert a.phase is Phase.STABLE
    assert a.owned == partitions("t", *range(8))


def test_a_claim_is_all_or_nothing(group):
    group.admin.create("/consumers/g/owners/t/3", b"g_ghost-0", ephemeral=True, make_parents=True)
    group.join("a", {"t": 1})
    group.settle()
    assert group.owners("t") == {3: "g_ghost-0"}


def test_an_owner_znode_deleted_by_path_alone_is_claimed_again_by_the_audit(group):
    a = group.join("a", {"t": 1})
    group.settle()
    group.admin.delete("/consumers/g/owners/t/5")
    group.pass_time(11)
    assert group.owners("t")[5] == "g_a-0"
    assert ("drop", tuple(partitions("t", 5))) in a.delivery.log
    assert a.delivery.log[-1] == ("begin", tuple(partitions("t", 5)))


def test_a_release_leaves_owner_znodes_of_other_members(group):
    group.join("a", {"t": 1})
    group.settle()
    group.admin.delete("/consumers/g/owners/t/7")
    group.admin.create("/consumers/g/owners/t/7", b"g_jvm-0", ephemeral=True)
    group.join("b", {"t": 1})
    group.settle()
    assert group.owners("t")[7] == "g_jvm-0"


def test_an_expired_session_drops_everything_and_joins_anew(group):
    a = group.join("a", {"t": 1})
    group.settle()
    group.server.expire(a.store.session_id)
    group.settle()
    assert a.phase is Phase.STABLE
    assert ("drop", tuple(partitions("t", *range(8)))) in a.delivery.log
    assert a.owned == partitions("t", *range(8))
    assert group.admin.exists("/consumers/g/ids/g_a").ephemeral_owner == a.store.session_id


def test_a_short_break_of_the_connection_moves_nothing(group):
    a = group.join("a", {"t": 1})
    b = group.join("b", {"t": 1})
    group.settle()
    a.delivery.log.clear()
    group.server.suspend(a.store)
    group.pass_time(1)
    group.server.resume(a.store)
    group.settle()
    assert a.delivery.log == []
    assert not a.delivery.paused
    assert b.owned == partitions("t", 4, 5, 6, 7)


def test_a_long_break_pauses_delivery_until_the_connection_is_back(group):
    a = group.join("a", {"t": 1})
    group.settle()
    group.server.suspend(a.store)
    group.pass_time(2)
    assert a.delivery.paused
    group.server.resume(a.store)
    group.settle()
    assert not a.delivery.paused
    assert a.delivery.flowing == set(partitions("t", *range(8)))


def test_a_deleted_registration_is_made_again_without_losing_owned_partitions(group):
    a = group.join("a", {"t": 1})
    group.settle()
    a.delivery.log.clear()
    group.admin.delete("/consumers/g/ids/g_a")
    group.settle()
    assert group.admin.exists("/consumers/g/ids/g_a") is not None
    assert [entry for entry in a.delivery.log if entry[1]] == []


def test_added_partitions_are_shared_out(group):
    a = group.join("a", {"t": 1})
    group.settle()
    group.add_partitions("t", 10)
    group.settle()
    assert a.owned == partitions("t", *range(10))


def test_a_topic_that_is_created_later_is_noticed(group):
    a = group.join("a", {"later": 1})
    group.settle()
    assert a.phase is Phase.STABLE
    assert a.owned == []
    group.create_topic("later", 2)
    group.settle()
    assert a.owned == partitions("later", 0, 1)


def test_a_white_list_follows_topics_that_come(group):
    a = group.join("a", {"t|new.*": 1}, pattern=SubscriptionPattern.WHITE_LIST)
    group.settle()
    group.create_topic("new-1", 2)
    group.settle()
    assert a.owned == partitions("new-1", 0, 1) + partitions("t", *range(8))


def test_the_coordinator_leaves_out_and_names_an_unreadable_member(group, caplog):
    group.admin.create(f"/consumers/{GROUP}/ids/g_odd", b"garbage", ephemeral=True, make_parents=True)
    a = group.join("a", {"t": 1})
    group.settle()
    assert a.owned == partitions("t", *range(8))
    assert "g_odd" in caplog.text


def test_a_registration_with_impossible_topic_names_stops_no_member(group):
    odd = b'{"version":1,"subscription":{"":1,"a/b":1,"..":1,"t":1},"pattern":"static","timestamp":"1"}'
    group.admin.create("/consumers/g/ids/g_odd", odd, ephemeral=True, make_parents=True)
    a = group.join("a", {"t": 1})
    group.settle()
    assert a.owned == partitions("t", 0, 1, 2, 3)


def test_a_claim_whose_reply_was_lost_is_found_again(group):
    from zk_layout.memory_store import Fault

    lost = []

    def lose_one_claim(session, kind):
        if kind == "multi" and not lost:
            lost.append(session)
            return Fault.LOSE_REPLY
        return None

    group.server.fault = lose_one_claim
    a = group.join("a", {"t": 1})
    group.pass_time(3)
    assert lost
    assert a.owned == partitions("t", *range(8))
    assert len(group.owners("t")) == 8
    assert a.delivery.flowing == set(a.owned)


def test_a_claim_cut_into_several_requests_is_undone_as_a_whole():
    group = Group({"t": 200})
    group.server.max_multi_bytes = 4000
    group.admin.create("/consumers/g/owners/t/199", b"g_ghost-0", ephemeral=True, make_parents=True)
    a = group.join("a", {"t": 1})
    group.settle()
    assert a.phase is Phase.WAITING
    assert group.owners("t") == {199: "g_ghost-0"}
    group.admin.delete("/consumers/g/owners/t/199")
    group.settle()
    assert a.owned == partitions("t", *range(200))


def test_a_listener_sees_the_whole_groups_assignment(group):
    a = group.join("a", {"t": 1})
    group.join("b", {"t": 1})
    group.settle()
    assert {str(thread) for thread in a.delivery.assignment.values()} == {"g_a-0", "g_b-0"}


def test_nothing_is_decided_in_a_session_that_the_member_has_not_heard_of_yet(group):
    a = group.join("a", {"t": 1})
    group.settle()
    a.delivery.log.clear()
    # the watch on the list of members fires first; the event of the session's end is still to come
    group.server.expire(a.store.session_id)
    inbox = a.coordinator._mailbox._inbox
    late = {key: mail for key, mail in inbox.items() if isinstance(mail, SESSION_EVENTS)}
    for key, mail in late.items():
        del inbox[key]
        inbox[key] = mail
    assert late
    assert isinstance(next(iter(inbox.values())), WatchEvent)
    a.coordinator.turn()
    assert a.delivery.log == []
    assert group.admin.exists("/consumers/g/ids/g_a") is None
    group.settle()
    assert a.delivery.log[0] == ("drop", tuple(partitions("t", *range(8))))
    assert a.owned == partitions("t", *range(8))


def test_an_owner_znode_that_another_client_deletes_is_claimed_again_before_the_next_audit(group):
    """Regression: after a JVM member had deleted the owner znode by path alone, there was none for half a minute."""
    a = group.join("a", {"t": 1})
    group.settle()
    group.pass_time(1.5)
    group.admin.delete("/consumers/g/owners/t/5")
    group.settle()
    assert group.owners("t")[5] == "g_a-0"
    assert ("drop", tuple(partitions("t", 5))) in a.delivery.log


def test_an_owner_znode_that_vanished_before_it_was_watched_is_found_when_it_is(group):
    group.join("a", {"t": 1})
    group.settle()
    group.admin.delete("/consumers/g/owners/t/5")
    group.pass_time(1.5)
    assert group.owners("t")[5] == "g_a-0"


def test_a_members_own_release_is_no_reason_to_read_the_group_again(group):
    a = group.join("a", {"t": 1})
    group.settle()
    group.pass_time(1.5)
    before = a.coordinator.status.rebalances
    group.join("b", {"t": 1})
    group.settle()
    assert a.coordinator.status.rebalances == before + 1


def test_watching_the_owner_znodes_of_a_claim_costs_one_request_however_many_they_are(group):
    group.join("a", {"t": 1})
    group.settle()
    before = group.server.requests.copy()
    group.pass_time(5)
    assert group.server.requests - before == {"watch_many": 1}


def test_a_member_that_could_not_watch_its_owner_znodes_watches_them_with_its_next_audit(group):
    a = group.join("a", {"t": 1})
    no_answer = Refusal(ConnectionLostError("no answer in time"))
    group.server.fault = lambda _session, kind: no_answer if kind == "watch_many" else None
    group.pass_time(2)
    group.server.fault = None
    group.pass_time(10)
    assert a.coordinator.status.rebalances == 1
    group.admin.delete("/consumers/g/owners/t/5")
    group.settle()
    assert group.owners("t")[5] == "g_a-0"


def test_a_member_that_cannot_begin_one_partition_watches_the_owner_znodes_of_the_others(group):
    a = group.join("a", {"t": 1})
    unreadable = TopicPartition("t", 3)
    begin = a.delivery.begin

    def begin_the_others(claimed, assignment):
        yield from begin({tp: thread for tp, thread in claimed.items() if tp != unreadable}, assignment)
        if unreadable in claimed:
            raise PartlyBegunError({unreadable: "its offset is unreadable"})

    a.delivery.begin = begin_the_others
    group.pass_time(12)
    group.admin.delete("/consumers/g/owners/t/5")
    group.settle()
    assert a.phase is not Phase.STABLE
    assert group.owners("t")[5] == "g_a-0"


@pytest.mark.parametrize("is_anothers", [False, True])
def test_an_owner_znode_deleted_between_the_claim_and_the_watch_is_missed_as_it_is_watched(group, is_anothers):
    a = group.join("a", {"t": 1})
    group.settle()
    group.admin.delete("/consumers/g/owners/t/5")
    if is_anothers:
        group.admin.create("/consumers/g/owners/t/5", b"g_x-0", ephemeral=True)
    group.pass_time(1.5)
    if is_anothers:
        assert TopicPartition("t", 5) not in a.owned
        group.admin.delete("/consumers/g/owners/t/5")
        group.settle()
    assert group.owners("t")[5] == "g_a-0"
    assert TopicPartition("t", 5) in a.owned


def test_a_commit_that_finds_an_owner_znode_gone_makes_the_member_look_at_once(group):
    a = group.join("a", {"t": 1})
    group.settle()
    group.admin.delete("/consumers/g/owners/t/5")
    a.coordinator.post(Doubted())
    group.settle()
    assert group.owners("t")[5] == "g_a-0"


def test_an_owner_znode_deleted_while_the_connection_was_away_is_claimed_again_when_it_is_back(group):
    a = group.join("a", {"t": 1})
    group.settle()
    group.pass_time(1.5)
    group.server.suspend(a.store)
    group.admin.delete("/consumers/g/owners/t/5")
    group.server.resume(a.store)
    group.settle()
    assert group.owners("t")[5] == "g_a-0"


def test_members_that_start_together_claim_each_partition_once(group):
    """A redeployment that starts all members anew leads to one rebalance, not to one for each member."""
    a = group.join("a", {"t": 1}, gather_ms=3000)
    group.pass_time(2.0)
    b = group.join("b", {"t": 1}, gather_ms=3000)
    group.settle()
    assert (a.phase, a.owned, b.owned) == (Phase.GATHERING, [], [])
    group.pass_time(3.5)
    assert a.owned == partitions("t", 0, 1, 2, 3)
    assert b.owned == partitions("t", 4, 5, 6, 7)
    for member, numbers in ((a, (0, 1, 2, 3)), (b, (4, 5, 6, 7))):
        assert [entry for entry in member.delivery.log if entry[0] != "begin" or entry[1]] == [
            ("begin", tuple(partitions("t", *numbers)))
        ]


def test_a_member_that_gathers_and_is_stopped_leaves_at_once(group):
    a = group.join("a", {"t": 1}, gather_ms=60_000)
    group.settle()
    a.coordinator.close(5)
    while not a.coordinator.is_closed:
        a.coordinator.turn()
    assert group.admin.get_children("/consumers/g/ids") == ()


def test_a_session_that_ends_while_gathering_is_followed_by_a_member_that_claims(group):
    a = group.join("a", {"t": 1}, gather_ms=3000)
    group.settle()
    group.server.expire(a.store.session_id)
    group.pass_time(4.0)
    assert a.owned == partitions("t", *range(8))
    assert a.phase is Phase.STABLE
