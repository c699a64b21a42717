"""The coordinator with model members: the sequence of the group's states, and the number of joins."""

import pytest

from rebalance.coordination import Code
from rebalance.coordination.requests import Heartbeat
from tests.support.coordinated import GROUP, HEARTBEAT_MS, PARTITIONS, REBALANCE_MS, SESSION_MS, Phase, World

EMPTY, PREPARING, COMPLETING, STABLE = "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"
REBALANCE = [PREPARING, COMPLETING, STABLE]


@pytest.fixture
def world():
    return World()


def settled(world, *members):
    """Check that all are members of one generation, and that each partition belongs to exactly one of them."""
    assert {member.phase for member in members} == {Phase.MEMBER}
    assert {member.generation for member in members} == {world.group.generation}
    assert sorted(p for member in members for p in member.partitions) == list(PARTITIONS)
    return True


def joins(*members):
    return [member.joins for member in members]


def group_of(world, count, **how):
    """Return the members of a settled group, with all records of how it settled cleared."""
    members = [world.member(f"m{number}", **how) for number in range(count)]
    for member in members:
        member.join()
    world.deliver()
    world.beat()
    world.beat()
    assert settled(world, *members)
    world.states.clear()
    world.assignments.clear()
    for member in members:
        member.joins = 0
        member.errors.clear()
    return members


def leader_and_others(members):
    [leader] = [member for member in members if member.leads]
    return leader, [member for member in members if member is not leader]


def test_three_members_at_once_the_first_joins_twice_and_one_assignment_is_made(world):
    members = [world.member(name) for name in "abc"]
    for member in members:
        member.join()
    world.deliver()
    assert settled(world, *members)
    assert joins(*members) == [2, 1, 1]
    assert world.states == [EMPTY, PREPARING, COMPLETING, PREPARING, COMPLETING, STABLE]
    assert len(world.assignments) == 1


def test_one_member_then_two_together_make_two_rebalances(world):
    a, b, c = (world.member(name) for name in "abc")
    a.join()
    world.deliver()
    b.join()
    c.join()
    world.beat(a)
    assert settled(world, a, b, c)
    assert joins(a, b, c) == [2, 1, 1]
    assert world.states == [EMPTY, *REBALANCE, *REBALANCE]
    assert len(world.assignments) == 2


def test_three_members_one_by_one_make_three_rebalances(world):
    a, b, c = (world.member(name) for name in "abc")
    for newcomer in (a, b, c):
        newcomer.join()
        world.deliver()
        world.beat()
    assert settled(world, a, b, c)
    assert joins(a, b, c) == [3, 2, 1]
    assert world.states == [EMPTY, *REBALANCE, *REBALANCE, *REBALANCE]
    assert [len(stored.members) for stored in world.assignments] == [1, 2, 3]


def test_members_that_have_to_ask_for_an_id_first_join_once_more_each(world):
    members = [world.member(name, id_first=True) for name in "abc"]
    for member in members:
        member.join()
    world.deliver()
    assert settled(world, *members)
    assert joins(*members) == [2, 2, 2]
    assert world.states == [EMPTY, *REBALANCE]


def test_a_follower_whose_join_reply_is_lost_is_answered_at_once_and_nothing_is_disturbed(world):
    a, b = group_of(world, 2)
    leader, [follower] = leader_and_others([a, b])
    leader.join()
    world.deliver()
    follower.beat()
    world.deliver(1)  # the follower joins again
    assert world.lose_reply(follower).code is Code.NONE
    world.deliver()
    assert world.states == REBALANCE
    generation = world.group.generation
    follower.connection_lost()
    world.deliver()
    assert settled(world, a, b)
    assert world.group.generation == generation
    assert world.states == REBALANCE
    assert joins(leader, follower) == [1, 2]


def test_the_leader_whose_join_reply_is_lost_holds_the_group_in_completing_rebalance_until_it_joins_again(world):
    a, b = group_of(world, 2)
    leader, [follower] = leader_and_others([a, b])
    follower.protocols = tuple(type(p)(p.name, b"changed") for p in follower.protocols)
    follower.join()
    leader.beat()
    world.deliver(1)  # the leader joins again
    world.lose_reply(leader)
    world.deliver()
    assert world.states == [PREPARING, COMPLETING]
    assert follower.phase is Phase.SYNCING
    leader.connection_lost()
    world.deliver()
    assert settled(world, a, b)
    assert world.states == REBALANCE
    assert joins(leader, follower) == [2, 1]


def test_a_sync_while_the_group_prepares_a_rebalance_is_refused_and_the_member_joins_again(world):
    a, b = group_of(world, 2)
    leader, [follower] = leader_and_others([a, b])
    leader.join()
    follower.sync()
    assert world.states == [PREPARING]
    world.deliver()
    assert Code.REBALANCE_IN_PROGRESS in follower.errors
    assert settled(world, a, b)
    assert joins(leader, follower) == [1, 1]
    assert world.states == REBALANCE


def test_a_followers_sync_waits_for_the_leaders_and_is_answered_at_once_after_it(world):
    a, b, c = group_of(world, 3)
    leader, [early, late] = leader_and_others([a, b, c])
    leader.join()
    early.beat()
    late.beat()
    world.deliver(2)  # both join again, and the generation begins
    replies = {world.asked[handle]: (handle, answer) for handle, answer in world.replies}
    world.replies.clear()
    early.receive(*replies[early])
    assert world.states == [PREPARING, COMPLETING]
    assert not world.replies, "the early follower's sync waits"
    leader.receive(*replies[leader])
    assert {world.asked[handle] for handle, _ in world.replies} == {leader, early}
    world.deliver()
    late.receive(*replies[late])
    assert {world.asked[handle] for handle, _ in world.replies} == {late}
    world.deliver()
    assert settled(world, a, b, c)
    assert world.states == REBALANCE


def test_a_member_that_leaves_a_stable_group_makes_one_rebalance(world):
    a, b, c = group_of(world, 3)
    b.leave()
    assert world.states == [PREPARING]
    world.deliver()
    world.beat(a, c)
    assert settled(world, a, c)
    assert joins(a, c) == [1, 1]
    assert world.states == REBALANCE


def test_a_member_that_leaves_while_a_rebalance_is_prepared_is_not_waited_for(world):
    a, b, c = group_of(world, 3)
    a.join()
    b.beat()
    world.deliver()
    assert world.states == [PREPARING]
    c.leave()
    world.deliver()
    assert settled(world, a, b)
    assert joins(a, b) == [1, 1]
    assert world.states == REBALANCE


@pytest.mark.parametrize("leader_leaves", [False, True])
def test_a_member_that_leaves_while_the_leader_assigns_begins_the_rebalance_anew(world, leader_leaves):
    members = group_of(world, 3)
    leader, others = leader_and_others(members)
    leader.join()
    for other in others:
        other.beat()
    world.deliver(2)
    held = [reply for reply in world.replies if world.asked[reply[0]] is leader]
    for reply in held:
        world.replies.remove(reply)
    world.deliver()  # the followers wait for the leader's assignment
    assert world.states == [PREPARING, COMPLETING]
    goes = leader if leader_leaves else others[0]
    goes.leave()
    world.replies.extend(held)
    world.deliver()
    rest = [member for member in members if member is not goes]
    assert settled(world, *rest)
    assert world.states == [PREPARING, COMPLETING, PREPARING, COMPLETING, STABLE]


def test_the_last_member_to_leave_empties_the_group_and_a_new_one_gets_the_next_generation(world):
    [a] = group_of(world, 1)
    generation = world.group.generation
    a.leave()
    world.deliver()
    assert world.states == [PREPARING, EMPTY]
    b = world.member("b")
    b.join()
    world.deliver()
    assert settled(world, b)
    assert b.generation > generation


def test_a_member_that_falls_silent_in_a_stable_group_is_removed_after_its_session_timeout(world):
    a, b, c = group_of(world, 3)
    world.pass_time(SESSION_MS - 500, silent=[b])
    assert world.states == []
    world.pass_time(SESSION_MS, silent=[b])
    assert settled(world, a, c)
    assert joins(a, c) == [1, 1]
    assert world.states == REBALANCE


def test_a_member_that_falls_silent_during_a_rebalance_is_removed_and_the_others_continue(world):
    a, b, c = group_of(world, 3)
    a.join()
    b.beat()
    world.deliver()
    world.pass_time(SESSION_MS + HEARTBEAT_MS + 1_000, silent=[c])
    assert settled(world, a, b)
    assert world.states == REBALANCE
    assert world.now < REBALANCE_MS


def test_a_leader_that_falls_silent_before_it_assigns_is_removed_and_another_one_leads(world):
    members = group_of(world, 3)
    leader, others = leader_and_others(members)
    leader.join()
    for other in others:
        other.beat()
    world.deliver(2)
    world.lose_reply(leader)
    world.deliver()
    assert world.states == [PREPARING, COMPLETING]
    world.pass_time(SESSION_MS + HEARTBEAT_MS + 1_000, silent=[leader])
    assert settled(world, *others)
    assert world.states == [PREPARING, COMPLETING, PREPARING, COMPLETING, STABLE]


def test_a_rebalance_timeout_shorter_than_the_session_removes_a_member_that_does_not_join_again():
    world = World()
    a, b = group_of(world, 2, session_ms=30_000, rebalance_ms=6_000)
    a.join()
    world.pass_time(5_000, silent=[b])
    assert world.states == [PREPARING]
    world.pass_time(1_500, silent=[b])
    assert settled(world, a)
    assert world.states == REBALANCE
    b.beat()
    world.deliver()
    assert b.errors == [Code.UNKNOWN_MEMBER_ID]
    world.beat(a)
    assert settled(world, a, b), "it came back as a new member"


def test_a_rebalance_timeout_longer_than_the_session_waits_for_a_member_that_sends_heartbeats():
    world = World()
    a, b = group_of(world, 2, session_ms=6_000, rebalance_ms=60_000)
    a.join()
    for _ in range(20):  # b is alive but slow to release its partitions, so it does not join yet
        world.pass_time(2_000, silent=[b])
        handle = world.ask(b, Heartbeat, member_id=b.member_id, generation=b.generation)
        [(_, answer)] = [reply for reply in world.replies if reply[0] == handle]
        assert answer.code is Code.REBALANCE_IN_PROGRESS
        world.replies.clear()
    assert world.states == [PREPARING]
    b.join()
    world.deliver()
    assert settled(world, a, b)
    assert world.states == REBALANCE


# The coordinator is lost in five places. Each time the successor goes on from the stored state.


def test_lost_before_it_announces_a_change_the_group_continues_and_the_newcomer_joins_the_successor(world):
    a, b = group_of(world, 2)
    c = world.member("c")
    c.join()  # the coordinator notices the change, and has sent nothing yet
    world.crash()
    world.beat(a, b)
    assert world.states == [PREPARING, "lost", STABLE], "a and b differ in nothing from what is stored"
    world.reconnect(c)
    world.beat(a, b)
    assert settled(world, a, b, c)
    assert joins(a, b, c) == [1, 1, 2]
    assert world.states == [PREPARING, "lost", STABLE, *REBALANCE]


def test_lost_after_it_announced_a_change_to_some_a_follower_that_joins_again_is_answered_at_once(world):
    members = group_of(world, 3)
    leader, [told, untold] = leader_and_others(members)
    d = world.member("d")
    d.join()
    told.beat()
    world.deliver(1)  # the member `told` joins again; the other two do not know of the change
    world.members.remove(d)  # the newcomer dies with the coordinator
    world.crash()
    world.reconnect(told)
    world.beat(leader, untold)
    assert settled(world, *members)
    assert joins(leader, told, untold) == [0, 2, 0]
    assert world.states == [PREPARING, "lost", STABLE], "nothing differs, so nobody else has to join"


def test_lost_when_some_have_joined_the_newcomer_joins_at_the_successor_and_one_rebalance_follows(world):
    members = group_of(world, 3)
    leader, [told, untold] = leader_and_others(members)
    d = world.member("d")
    d.join()
    told.beat()
    leader.beat()
    world.deliver(2)
    world.crash()
    world.reconnect(d, told, leader)
    world.beat(untold)
    assert settled(world, d, *members)
    assert world.states == [PREPARING, "lost", STABLE, *REBALANCE]


def test_lost_after_the_write_and_before_any_reply_every_member_gets_the_written_assignment(world):
    members = group_of(world, 3)
    leader, others = leader_and_others(members)
    leader.join()
    for other in others:
        other.beat()
    while not world.assignments:
        world.deliver(1)
    generation = world.assignments[0].generation
    world.crash()
    assert world.states == [*REBALANCE, "lost", STABLE]
    for member in members:
        if member.phase is Phase.SYNCING:  # a client repeats its request
            member.sync({})
        elif member.phase is Phase.JOINING:
            member.join()
    world.deliver()
    assert settled(world, *members)
    assert {member.generation for member in members} == {generation}
    assert world.states == [*REBALANCE, "lost", STABLE]


def test_lost_when_some_have_their_assignment_the_others_get_the_same_one(world):
    members = group_of(world, 3)
    leader, others = leader_and_others(members)
    leader.join()
    for other in others:
        other.beat()
    while not world.assignments:
        world.deliver(1)
    told = []
    while not told:
        world.deliver(1)
        told = [one for one in members if one.phase is Phase.MEMBER and one.generation == world.group.generation]
    assert len(told) == 1
    world.crash()
    for member in members:
        if member not in told:
            member.phase = Phase.SYNCING
            member.generation = world.group.generation
            member.sync({})
    world.deliver()
    world.beat()
    assert settled(world, *members)
    assert world.states == [*REBALANCE, "lost", STABLE]
    assert len(world.assignments) == 1


def test_lost_before_the_write_the_generation_that_was_told_is_refused_and_all_join_again(world):
    members = group_of(world, 2)
    leader, [follower] = leader_and_others(members)
    leader.join()
    follower.beat()
    world.deliver(1)
    world.deliver(1)  # the leader or the follower is in the next generation, which is stored nowhere
    world.crash()
    world.reconnect()
    world.beat()
    world.beat()
    assert settled(world, *members)
    assert world.states[-4:] == [STABLE, *REBALANCE]


def test_a_stored_member_that_never_connects_to_the_successor_is_removed_after_its_session(world):
    a, b = group_of(world, 2)
    world.crash()
    world.pass_time(SESSION_MS + HEARTBEAT_MS + 1_000, silent=[b])
    assert settled(world, a)
    assert world.states == ["lost", STABLE, *REBALANCE]
    assert len(world.coordinator.groups[GROUP].members) == 1
