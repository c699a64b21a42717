"""Members that read a group while it changes. The test decides who takes a turn and when watches fire."""

import logging

import pytest

from rebalance.events import CloseRequested
from rebalance.group_strategy import ClassicStrategy
from rebalance.machine import Phase
from rebalance.reader import GroupReader
from tests.support.group_members import GROUP, Group
from zk_layout.codecs import encode_registration
from zk_layout.errors import NoNodeError
from zk_layout.memory_store import Fault, MemoryStore, Refusal
from zk_layout.model import ConsumerRegistration, SubscriptionPattern, TopicPartition
from zk_layout.store import CreateOp, DeleteOp

IDS = f"/consumers/{GROUP}/ids"
UUID = "0b0b0b0b-0b0b-4b0b-8b0b-0b0b0b0b0b0b"
WHITE_LIST = SubscriptionPattern.WHITE_LIST


def partitions(topic, *numbers):
    return [TopicPartition(topic, n) for n in numbers]


def static(subscription, timestamp_ms=1):
    return encode_registration(
        ConsumerRegistration(SubscriptionPattern.STATIC, tuple(subscription.items()), timestamp_ms)
    )


@pytest.fixture
def group():
    return Group({"t": 4})


def take_turns(*members, turns=200):
    """Let only these members take turns, until none of them has anything to do now."""
    for _ in range(turns):
        # a list, because all() over a generator would stop at the first busy member
        idle = [member.coordinator.turn() > 0 for member in members]
        if all(idle):
            return
    raise AssertionError("they do not settle")


class Interruption:
    """Runs a function just before the n-th request of a kind that a store makes."""

    def __init__(self, server, store, kind, what, *, nth=1):
        self.left = nth
        self.done = False
        self._server, self._session_id, self._kind, self._what = server, store.session_id, kind, what
        server.fault = self

    def __call__(self, session_id, kind):
        if session_id == self._session_id and kind == self._kind:
            self.left -= 1
            if self.left == 0:
                self._server.fault = None
                self.done = True
                self._what()


def test_members_that_know_different_lists_settle_when_the_lists_agree(group):
    a = group.join("a", {"t": 1})
    group.settle()
    group.server.auto_deliver = False
    b = group.join("b", {"t": 1})
    take_turns(a, b)
    assert (a.owned, b.owned) == (partitions("t", 0, 1, 2, 3), []), "a has not heard of b, b found its share owned"
    assert b.phase is Phase.WAITING
    assert b.delivery.flowing == set()
    group.server.auto_deliver = True
    group.server.deliver_all()
    take_turns(a, b)
    assert (a.owned, b.owned) == (partitions("t", 0, 1), partitions("t", 2, 3)), "a released, which woke b"
    assert {a.phase, b.phase} == {Phase.STABLE}


@pytest.mark.parametrize("first", [0, 1, 2])
def test_members_that_notice_two_joins_in_any_order_settle_alike(group, first):
    a = group.join("a", {"t": 1})
    group.settle()
    group.server.auto_deliver = False
    b = group.join("b", {"t": 1})
    c = group.join("c", {"t": 1})
    members = [a, b, c]
    ahead = members.pop(first)
    for _ in range(5):
        while group.server.deliver_next(ahead.store):
            pass
        take_turns(ahead)
    for member in members:
        take_turns(*members)
        while group.server.deliver_next(member.store):
            pass
    group.server.auto_deliver = True
    group.server.deliver_all()
    group.pass_time(2.5)
    assert group.owners("t") == {0: "g_a-0", 1: "g_a-0", 2: "g_b-0", 3: "g_c-0"}
    assert [len(member.delivery.flowing) for member in (a, b, c)] == [2, 1, 1]


def test_a_member_that_joins_and_leaves_before_others_notice_moves_nothing(group):
    a = group.join("a", {"t": 1})
    group.settle()
    a.delivery.log.clear()
    passing = MemoryStore(group.server)
    passing.start()
    passing.create(f"{IDS}/g_b", static({"t": 1}), ephemeral=True)
    passing.close()
    group.settle()
    assert a.delivery.log == []


def test_a_member_that_registered_in_a_session_of_which_it_has_not_heard_does_not_say_that_it_left_nothing(group):
    a = group.join("a", {"t": 1})

    def expire_and_close():
        group.server.expire(a.store.session_id)
        a.coordinator.post(CloseRequested(1000))

    group.server.auto_deliver = False
    interruption = Interruption(group.server, a.store, "create", expire_and_close)
    take_turns(a, turns=20)
    assert interruption.done
    assert a.coordinator.is_closed
    assert group.admin.exists(f"{IDS}/{a.consumer_id}") is not None, "its session lives, and has it"
    assert not a.coordinator.has_left_nothing, "so the session is to be ended with it"


@pytest.mark.parametrize("nth", [4, 5], ids=["before ids is made", "before the id znode is made"])
def test_a_member_joins_though_an_operator_deletes_the_group_meanwhile(group, nth):
    a = group.join("a", {"t": 1})

    def delete_group():
        for path in (IDS, f"/consumers/{GROUP}"):
            if group.admin.exists(path):
                group.admin.delete(path)

    # the member creates the id znode (refused), its three parents, and the id znode again
    interruption = Interruption(group.server, a.store, "create", delete_group, nth=nth)
    take_turns(a)
    assert interruption.done
    assert (a.phase, a.owned) == (Phase.STABLE, partitions("t", 0, 1, 2, 3))
    assert a.coordinator.counters.failures == 0


def test_a_member_whose_chroot_is_deleted_names_the_missing_path_and_no_other_session(group):
    a = group.join("a", {"t": 1})
    refuse = Refusal(NoNodeError("/consumers"))
    group.server.fault = lambda session, kind: refuse if (session, kind) == (a.store.session_id, "create") else None
    group.pass_time(1)
    assert str(a.coordinator.status.error) == "/consumers does not exist"


def test_a_member_that_vanishes_between_list_and_read_is_no_member(group):
    a = group.join("a", {"t": 1})
    group.settle()
    passing = MemoryStore(group.server)
    passing.start()
    passing.create(f"{IDS}/g_b", static({"t": 1}), ephemeral=True)
    vanish = Interruption(group.server, a.store, "multi_read", passing.close)
    group.settle()
    assert vanish.done
    assert a.phase is Phase.STABLE
    assert a.owned == partitions("t", 0, 1, 2, 3)


def test_a_topic_listed_and_deleted_before_it_is_read_counts_as_none_and_is_followed_when_it_returns(group):
    group.create_topic("new", 2)
    a = group.join("a", {"t|new": 1}, pattern=WHITE_LIST)
    # the member reads each topic with a watch in a request of its own, "new" first
    vanish = Interruption(group.server, a.store, "get_data", lambda: group.admin.delete("/brokers/topics/new"))
    group.settle()
    assert vanish.done
    assert a.owned == partitions("t", 0, 1, 2, 3)
    group.create_topic("new", 2)
    group.settle()
    assert a.owned == partitions("new", 0, 1) + partitions("t", 0, 1, 2, 3)


def test_a_topic_that_others_saw_first_is_shared_once_everybody_saw_it(group):
    a = group.join("a", {".*": 1}, pattern=WHITE_LIST)
    b = group.join("b", {".*": 1}, pattern=WHITE_LIST)
    group.settle()
    group.server.auto_deliver = False
    group.create_topic("u", 4)
    while group.server.deliver_next(b.store):
        pass
    take_turns(a, b)
    assert b.owned == partitions("t", 2, 3) + partitions("u", 2, 3)
    assert a.owned == partitions("t", 0, 1), "has not heard of the topic"
    assert b.delivery.flowing == set(b.owned)
    group.server.deliver_all()
    take_turns(a, b)
    assert a.owned == partitions("t", 0, 1) + partitions("u", 0, 1)
    assert ("stop", tuple(partitions("u", 2, 3))) not in b.delivery.log, "who was ahead is not disturbed again"


def test_an_owner_that_vanishes_between_the_claim_and_the_look_at_it_is_claimed_in_the_same_step(group):
    path = f"/consumers/{GROUP}/owners/t/3"
    group.admin.create(path, b"g_gone-0", ephemeral=True, make_parents=True)
    a = group.join("a", {"t": 1})
    looks = []

    def release(session_id, kind):
        # just before the read that follows the refused claim
        if session_id == a.store.session_id:
            looks.append(kind)
            if looks[-2:] == ["multi", "get_data"] and group.admin.exists(path) is not None:
                group.admin.delete(path)

    group.server.fault = release
    take_turns(a)
    assert looks.count("multi") == 2
    assert a.phase is Phase.STABLE
    assert a.owned == partitions("t", 0, 1, 2, 3)


def test_an_owner_that_comes_between_the_look_and_the_claim_is_waited_for(group):
    ghost = MemoryStore(group.server)
    ghost.start()
    a = group.join("a", {"t": 1})
    path = f"/consumers/{GROUP}/owners/t/3"
    come = Interruption(
        group.server, a.store, "multi", lambda: ghost.create(path, b"g_ghost-0", ephemeral=True, make_parents=True)
    )
    group.settle()
    assert come.done
    assert (a.phase, a.owned) == (Phase.WAITING, [])
    assert group.owners("t") == {3: "g_ghost-0"}, "all or nothing"
    ghost.close()
    group.settle()
    assert a.owned == partitions("t", 0, 1, 2, 3)


def test_a_registration_that_is_filled_in_later_is_read_then(group, caplog):
    """kafka-node creates its znode empty and fills it in later; JVM members read it at their next rebalance only."""
    a = group.join("a", {"t": 1})
    group.settle()
    node = f"{IDS}/g_{UUID}"
    with caplog.at_level(logging.WARNING):
        group.admin.create(node, None, ephemeral=True)
        group.settle()
    assert f"leaves out member g_{UUID} (kafka-node), which is unreadable" in caplog.text
    assert a.owned == partitions("t", 0, 1, 2, 3)
    group.admin.set_data(node, b'{"version":1,"subscription":{"t": 1},"pattern":"white_list","timestamp":"1"}')
    group.settle()
    assert a.owned == partitions("t", 2, 3), "g_0... comes before g_a"


def test_a_registration_filled_in_between_the_read_and_the_watch_is_not_missed(group):
    node = f"{IDS}/g_{UUID}"
    group.admin.create(node, None, ephemeral=True, make_parents=True)
    a = group.join("a", {"t": 1})
    text = b'{"version":1,"subscription":{"t": 1},"pattern":"white_list","timestamp":"1"}'
    # the first read with a watch follows a read of all registrations without one
    fill = Interruption(group.server, a.store, "get_data", lambda: group.admin.set_data(node, text))
    take_turns(a)
    assert fill.done
    assert a.owned == partitions("t", 2, 3)


def test_a_configured_id_that_lives_again_with_another_subscription_is_read_again(group):
    """Two reads of the list of ids give the same names, but another member has one of them."""
    a = group.join("a", {"t": 1})
    group.settle()
    first = MemoryStore(group.server)
    first.start()
    first.create(f"{IDS}/g_b", static({"t": 1}), ephemeral=True)
    group.settle()
    assert a.owned == partitions("t", 0, 1)
    group.server.auto_deliver = False
    first.close()
    group.admin.create(f"{IDS}/g_b", static({"t": 3}, timestamp_ms=2), ephemeral=True)
    group.server.auto_deliver = True
    group.server.deliver_all()
    group.settle()
    assert a.owned == partitions("t", 0)


def test_ids_that_are_made_up_at_every_start_are_read_once(group):
    made_up = [f"g_host-1416392398{n:03d}-1a2b3c4d" for n in range(20)] + [f"host:{UUID}"]
    for name in made_up:
        group.admin.create(f"{IDS}/{name}", static({"t": 1}), ephemeral=True, make_parents=True)
    read = []
    store = MemoryStore(group.server)
    store.start()
    batch = store.get_data_many
    store.get_data_many = lambda paths, watcher=None: read.extend(p for p in paths if IDS in p) or batch(paths, watcher)
    reader = GroupReader(store, GROUP, exclude_internal_topics=True, on_change=lambda event: None)
    reader.read()
    assert len(read) == 21
    reader.forget_members()
    assert set(reader.read().members) == set(made_up)
    assert len(read) == 21


HOST_ID, GROUP_ID = f"host:{UUID}", f"g_{UUID}"
ALL = (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("name", "registration", "mine"),
    [
        (HOST_ID, b"t", ALL),
        (HOST_ID, b'{"pattern":"static","subscription":{"t":1},"timestamp":"1416392398","version":1}', (0, 1)),
        (GROUP_ID, b"", ALL),
        (GROUP_ID, b'{"version":1,"subscription":{"t": 1},"pattern":"white_list","timestamp":"1"}', (2, 3)),
        (GROUP_ID, b'{"version":1,"subscription":{"t": 1, "a(": 1},"pattern":"white_list","timestamp":"1"}', (2, 3)),
        (GROUP_ID, b'{"version":1,"subscription":{"a(": 1, "t": 1},"pattern":"white_list","timestamp":"1"}', ALL),
        ("g_old", b'{ "t": 2 }', ALL),
        ("g_old", b"*2*t.*", ALL),
        ("g_old", b"!1!x", ALL),
        ("g_odd", b"\xff", ALL),
        ("g_odd", b"null", ALL),
        ("g_odd", b"[]", ALL),
        ("g_odd", b"{}", ALL),
        ("g_odd", b'{"version":1,"subscription":{"t":0},"pattern":"static"}', ALL),
    ],
)
def test_no_foreign_registration_stops_a_member(group, caplog, name, registration, mine):
    with caplog.at_level(logging.WARNING):
        group.admin.create(f"{IDS}/{name}", registration, ephemeral=True, make_parents=True)
        a = group.join("a", {"t": 1})
        group.settle()
    assert a.phase is Phase.STABLE
    assert a.owned == partitions("t", *mine)
    assert (f"leaves out member {name} (" in caplog.text) == (mine == ALL)
    group.admin.delete(f"{IDS}/{name}")
    group.settle()
    assert a.owned == partitions("t", *ALL)


@pytest.mark.parametrize("text", [b"", b"somebody", f"host:{UUID}".encode(), f"g_{UUID}".encode(), b"\xff", b"-"])
def test_no_foreign_owner_stops_a_member_for_longer_than_it_is_there(group, text):
    path = f"/consumers/{GROUP}/owners/t/0"
    group.admin.create(path, text, ephemeral=True, make_parents=True)
    group.admin.create(f"/consumers/{GROUP}/owners/t/1-0", text, ephemeral=True)
    a = group.join("a", {"t": 1})
    group.settle()
    assert a.phase is Phase.WAITING
    group.admin.delete(path)
    group.settle()
    assert a.owned == partitions("t", 0, 1, 2, 3)


def test_a_member_escaped_twice_is_judged_as_all_others_judge_it(group, caplog):
    """A whitelist t\\d of Kafka 1.1.1: all other members give it nothing, so a member of ours must take everything."""
    written = b'{"version":1,"subscription":{"t\\\\\\\\d*":1},"pattern":"white_list","timestamp":"1416392398000"}'
    with caplog.at_level(logging.WARNING):
        group.admin.create(f"{IDS}/g_0", written, ephemeral=True, make_parents=True)
        a = group.join("a", {"t": 1})
        group.settle()
    assert a.owned == partitions("t", 0, 1, 2, 3)
    assert caplog.text.count("escaped twice") == 1
    assert r"registered its filter t\d* escaped twice" in caplog.text


def test_a_look_without_watches_leaves_none_behind(group):
    group.admin.create(f"{IDS}/g_x", b"garbage", ephemeral=True, make_parents=True)
    group.admin.create(f"{IDS}/g_w", static({"t": 1}), ephemeral=True)
    store = MemoryStore(group.server)
    store.start()
    seen = GroupReader(store, GROUP, exclude_internal_topics=True, on_change=None).read()
    assert (list(seen.members), list(seen.unreadable)) == (["g_w"], ["g_x"])
    assert not any(store.watches.values())
    assert ClassicStrategy("range").assign(seen).keys() == set(partitions("t", 0, 1, 2, 3))


CONFIGURED, MADE_UP = "a", f"host-1416392398000-{UUID[:8]}"


@pytest.mark.parametrize("ephemeral", [True, False], ids=["ephemeral", "persistent"])
@pytest.mark.parametrize("seen_deleted", [False, True])
@pytest.mark.parametrize("subscription", [{"t": 1, "other": 1}, {"t": 1}, {"other": 1}])
@pytest.mark.parametrize("name", [CONFIGURED, MADE_UP], ids=["configured", "made-up"])
def test_a_member_whose_id_is_deleted_and_taken_by_another_releases_its_partitions(
    group, name, subscription, seen_deleted, ephemeral
):
    group.create_topic("other", 2)
    a = group.join(name, {"t": 1})
    b = group.join("z", {"t": 1})
    group.settle()
    thief = MemoryStore(group.server)
    thief.start()
    znode = f"{IDS}/{a.consumer_id}"
    thief.delete(znode)

    def take():
        thief.create(znode, static(subscription), ephemeral=ephemeral)

    if seen_deleted:
        # a has read the list without itself and registers again, but another client takes the id first
        interruption = Interruption(group.server, a.store, "create", take)
        group.pass_time(0.1)
        assert interruption.done
    else:
        take()
    group.pass_time(30)
    assert a.owned == []
    assert a.delivery.flowing == set()
    assert a.phase is Phase.DEGRADED  # like a newcomer whose id is taken
    assert f"{a.consumer_id}-0" not in group.owners("t").values()
    thief.delete(znode)
    thief.close()
    group.pass_time(30)
    assert sorted(a.owned + b.owned) == partitions("t", 0, 1, 2, 3)
    assert {a.phase, b.phase} == {Phase.STABLE}


@pytest.mark.parametrize("taken", [False, True])
def test_a_member_whose_id_znode_is_gone_or_anothers_logs_what_is_true_of_both(group, taken, caplog):
    a = group.join("a", {"t": 1})
    group.settle()
    id_path = f"{IDS}/g_a"
    take = [CreateOp(id_path, static({"t": 1}), ephemeral=True)] if taken else []
    with caplog.at_level(logging.INFO):
        group.admin.multi([DeleteOp(id_path), *take])
        group.settle()
    assert "g_a: my id znode is gone, or is another session's" in caplog.messages
    assert a.owned == ([] if taken else partitions("t", 0, 1, 2, 3))


AUDIT_S = 10


@pytest.mark.parametrize("written", [static({"other": 1}), b"no registration"], ids=["another", "nonsense"])
@pytest.mark.parametrize("name", [CONFIGURED, MADE_UP], ids=["configured", "made-up"])
def test_an_overwritten_registration_is_written_again_and_the_group_agrees(group, caplog, written, name):
    a = group.join(name, {"t": 1})
    group.settle()
    znode = f"{IDS}/{a.consumer_id}"
    group.admin.set_data(znode, written)
    group.settle()
    b = group.join("b", {"t": 1})
    group.settle()
    assert b.owned == [], "it divides by what it has read, and a by what it wrote"
    group.clock.now += AUDIT_S
    group.settle()
    assert sorted(map(len, (a.owned, b.owned))) == [2, 2]
    assert {a.phase, b.phase} == {Phase.STABLE}
    assert group.admin.get_data(znode).data != written
    assert caplog.text.count("another client overwrote my registration") == 1


def test_a_member_whose_registration_was_overwritten_before_others_read_it_gets_its_share(group):
    b = group.join("b", {"t": 1})
    group.settle()
    a = group.join("a", {"t": 1})
    take_turns(a)
    group.admin.set_data(f"{IDS}/{a.consumer_id}", static({"other": 1}))
    group.settle()
    assert a.owned == []
    group.clock.now += AUDIT_S
    group.settle()
    assert sorted(map(len, (a.owned, b.owned))) == [2, 2]


def test_a_member_does_not_use_a_registration_that_another_client_wrote_in_its_name(group):
    a = group.join("a", {"t": 1})
    group.settle()
    a.delivery.log.clear()
    group.admin.set_data(f"{IDS}/g_a", static({"other": 1}))
    # another member joins and leaves, so a reads all registrations again
    group.admin.create(f"{IDS}/g_x", static({"t": 1}))
    group.admin.delete(f"{IDS}/g_x")
    group.settle()
    assert a.owned == partitions("t", *range(4))
    assert [what for what, which in a.delivery.log if which] == []
    assert group.admin.get_data(f"{IDS}/g_a").data != static({"other": 1})


@pytest.mark.parametrize("path", [f"/consumers/{GROUP}/ids/{GROUP}_a", f"/consumers/{GROUP}/owners/t/3"])
def test_a_permanent_znode_in_the_place_of_an_owner_or_member_is_waited_for_until_it_is_deleted(group, path, caplog):
    group.admin.create(path, b"g_x-0", make_parents=True)
    a = group.join("a", {"t": 1})
    group.pass_time(30)
    assert a.phase is Phase.DEGRADED
    if "/ids/" in path:
        assert "is not ephemeral: I wait until another client deletes it" in caplog.text
    group.admin.delete(path)
    group.settle()
    assert (a.phase, a.owned) == (Phase.STABLE, partitions("t", 0, 1, 2, 3))


def test_a_znode_in_the_way_is_logged_again_after_a_registration_whose_reply_was_lost(group, caplog):
    group.admin.create(f"{IDS}/g_a", b"", make_parents=True)
    a = group.join("a", {"t": 1})
    group.settle()
    group.admin.delete(f"{IDS}/g_a")
    faults = [Fault.LOSE_REPLY]
    group.server.fault = lambda _, kind: faults.pop() if faults and kind == "create" else None
    group.pass_time(5)
    assert faults == []
    assert a.phase is Phase.STABLE
    caplog.clear()
    group.server.expire(a.store.session_id)
    group.admin.create(f"{IDS}/g_a", b"")
    group.settle()
    assert "is not ephemeral: I wait until another client deletes it" in caplog.text
