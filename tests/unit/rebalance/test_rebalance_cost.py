"""The requests of a rebalance to ZooKeeper: none whose answer is known already, and none that is out of date."""

import logging

import pytest

from rebalance.machine import MOST_LOOKS, Phase
from rebalance.mailbox import Errand
from rebalance.reader import GroupReader
from tests.support.group_members import GROUP, Group
from zk_layout.codecs import encode_registration
from zk_layout.memory_store import MemoryStore
from zk_layout.model import ConsumerRegistration, SubscriptionPattern, TopicPartition

IDS = f"/consumers/{GROUP}/ids"
OWNERS = f"/consumers/{GROUP}/owners/t"


def partitions(*numbers):
    return [TopicPartition("t", n) for n in numbers]


def static(subscription):
    return encode_registration(ConsumerRegistration(SubscriptionPattern.STATIC, tuple(subscription.items()), 1))


class Configured:
    """A member with a configured id of which only the id znode exists."""

    def __init__(self, server, name, subscription):
        self.store = MemoryStore(server)
        self.store.start()
        self.store.create(f"{IDS}/{name}", static(subscription), ephemeral=True, make_parents=True)

    def leave(self):
        self.store.close()


@pytest.fixture
def group():
    return Group({"t": 8})


@pytest.fixture
def registrations_read(group):
    """Return a reader with a store of its own, and the list of ids whose registrations it has read."""
    store = MemoryStore(group.server)
    store.start()
    read = []
    batch = store.get_data_many

    def noting(paths, watcher=None):
        read.extend(path.rpartition("/")[2] for path in paths if path.startswith(IDS))
        return batch(paths, watcher)

    store.get_data_many = noting
    return GroupReader(store, GROUP, exclude_internal_topics=True, on_change=lambda event: None), read


def look(reader, read):
    read.clear()
    reader.forget_members()
    return reader.read(), sorted(read)


def test_of_configured_ids_too_only_the_new_one_is_read(group, registrations_read):
    reader, read = registrations_read
    for name in ("g_0", "g_1", "g_2"):
        Configured(group.server, name, {"t": 1})
    assert look(reader, read)[1] == ["g_0", "g_1", "g_2"]
    third = Configured(group.server, "g_3", {"t": 1})
    assert look(reader, read)[1] == ["g_3"]
    third.leave()
    assert look(reader, read)[1] == []


@pytest.mark.parametrize("name", ["g_0", "g_pod-0b0b0b0b-0b0b-4b0b-8b0b-0b0b0b0b0b0b", "g_host-1234567890123-1a"])
def test_an_id_that_went_and_came_back_is_read_again_also_if_it_looks_like_one_that_was_made_up(
    group, registrations_read, name
):
    reader, read = registrations_read
    first = Configured(group.server, name, {"t": 1})
    Configured(group.server, "g_z", {"t": 1})
    look(reader, read)
    first.leave()
    Configured(group.server, name, {"t": 5})
    seen, asked = look(reader, read)
    assert asked == [name, "g_z"]
    assert seen.members[name].subscription == (("t", 5),)


def test_an_id_that_came_back_is_read_again_though_another_left_meanwhile(group, registrations_read):
    reader, read = registrations_read
    members = [Configured(group.server, f"g_{n}", {"t": 1}) for n in range(3)]
    look(reader, read)
    members[0].leave()
    members[1].leave()
    Configured(group.server, "g_0", {"t": 5})
    seen, _ = look(reader, read)
    assert seen.members["g_0"].subscription == (("t", 5),)
    assert "g_1" not in seen.members


def test_ids_in_a_directory_that_was_deleted_and_made_again_are_read_again(group, registrations_read):
    reader, read = registrations_read
    first = Configured(group.server, "g_0", {"t": 1})
    look(reader, read)
    first.leave()
    group.admin.delete(IDS)
    Configured(group.server, "g_0", {"t": 5})
    seen, asked = look(reader, read)
    assert asked == ["g_0"]
    assert seen.members["g_0"].subscription == (("t", 5),)


class Multis:
    """Counts the requests of one member by kind. before: {kind: called ahead of the first request of that kind}."""

    def __init__(self, group, member):
        self.counts = {}
        self.before = {}
        self._session_id = member.store.session_id
        group.server.fault = self

    def __call__(self, session_id, kind):
        if session_id == self._session_id:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            if kind in self.before:
                self.before.pop(kind)()


def turns(member):
    while member.coordinator.turn() == 0:
        pass


def test_a_settled_member_releases_and_claims_in_a_request_each_and_looks_at_no_owner_znode_before(group):
    a = group.join("a", {"t": 1})
    b = group.join("b", {"t": 1})
    group.settle()
    group.pass_time(1.5)
    c = group.join("c", {"t": 1})
    turns(c)
    asked = Multis(group, a)
    turns(a)
    assert asked.counts == {"get_children": 1, "multi_read": 1, "multi": 1}, "the list, c's registration, the release"
    group.settle()
    assert [a.owned, b.owned, c.owned] == [partitions(0, 1, 2), partitions(3, 4, 5), partitions(6, 7)]


def test_an_owner_znode_that_a_jvm_member_took_is_not_deleted_though_it_was_watched(group, caplog):
    a = group.join("a", {"t": 1})
    group.settle()
    group.pass_time(1.5)
    group.server.auto_deliver = False
    robber = Configured(group.server, "g_z", {"t": 1})
    robber.store.delete(f"{OWNERS}/7")
    robber.store.create(f"{OWNERS}/7", b"g_z-0", ephemeral=True)
    # before a's turn only the event of a changed group has come; the other watch events come with a's first answer
    group.server.deliver_next(a.store)
    with caplog.at_level(logging.WARNING):
        turns(a)
    assert group.owners("t")[7] == "g_z-0"
    assert "the owner znode of t/7 is not mine any more" in caplog.text


def test_an_owner_znode_that_another_member_takes_while_its_neighbour_is_looked_at_is_not_deleted(group):
    a = group.join("a", {"t": 1})
    group.settle()
    group.pass_time(1.5)
    robber = Configured(group.server, "g_z", {"t": 1})

    def take(number):
        robber.store.delete(f"{OWNERS}/{number}")
        robber.store.create(f"{OWNERS}/{number}", b"g_z-0", ephemeral=True)

    # the watch of owner znode 0 fires, so the release reads that znode
    take(0)
    Multis(group, a).before["multi_read"] = lambda: take(1)
    a.coordinator._ownership.release(partitions(0, 1, 2), just_asked=True)
    assert [group.owners("t").get(number) for number in range(3)] == ["g_z-0", "g_z-0", None]


def test_without_a_word_from_zookeeper_watches_are_not_trusted(group):
    a = group.join("a", {"t": 1})
    group.settle()
    group.pass_time(1.5)
    ownership = a.coordinator._ownership
    asked = Multis(group, a)
    ownership.release(partitions(0), just_asked=False)
    assert asked.counts == {"multi_read": 1, "multi": 1}
    ownership.release(partitions(1), just_asked=True)
    assert asked.counts == {"multi_read": 1, "multi": 2}


def test_an_owner_znode_claimed_anew_is_looked_at_until_it_is_watched_again(group):
    a = group.join("a", {"t": 1})
    group.settle()
    group.pass_time(1.5)
    ownership = a.coordinator._ownership
    thread = ownership.owned[partitions(0)[0]]
    ownership.release(partitions(0), just_asked=True)
    ownership.claim({partitions(0)[0]: thread}, lambda: None)
    asked = Multis(group, a)
    ownership.release(partitions(0), just_asked=True)
    assert asked.counts == {"multi_read": 1, "multi": 1}


def test_a_member_that_notices_another_join_while_it_reads_claims_for_both_at_once(group):
    group.admin.ensure_path(OWNERS)
    a = group.join("a", {"t": 1})
    asked = Multis(group, a)
    asked.before["multi_read"] = lambda: Configured(group.server, "g_b", {"t": 1})
    turns(a)
    assert a.owned == partitions(0, 1, 2, 3)
    assert asked.counts["multi"] == 1, "nothing was claimed for the list that had been overtaken"
    assert a.phase is Phase.STABLE


def test_a_member_that_notices_a_join_while_it_releases_claims_its_new_share(group):
    a = group.join("a", {"t": 1})
    b = Configured(group.server, "g_b", {"t": 1})
    group.settle()
    assert a.owned == partitions(0, 1, 2, 3)
    # the partitions of b's share are free, and a's partitions belong to the newcomer that sorts first
    Configured(group.server, "g_0", {"t": 1})
    b.leave()
    asked = Multis(group, a)
    asked.before["multi"] = lambda: Configured(group.server, "g_1", {"t": 1})
    turns(a)
    assert a.owned == partitions(6, 7)
    assert asked.counts["multi"] == 2, "a release and a claim, and not another pair for each list"


def test_members_that_join_faster_than_one_can_read_keep_no_member_from_claiming(group):
    a = group.join("a", {"t": 1})
    names = iter(range(1000))

    def another(session_id, kind):
        if session_id == a.store.session_id and kind == "multi_read":
            group.server.fault = None
            Configured(group.server, f"h_{next(names):03}", {"t": 1})
            group.server.fault = another

    group.server.fault = another
    for _ in range(3 * MOST_LOOKS):
        a.coordinator.turn()
    assert a.coordinator.status.owned, "what was seen last has to do"


def test_errands_wait_while_the_group_waits_for_this_member(group):
    a = group.join("a", {"t": 1})
    done = []
    group.settle()
    a.coordinator.post(Errand(lambda: done.append(a.owned)))
    Configured(group.server, "g_b", {"t": 1})
    turns(a)
    assert done == [partitions(0, 1, 2, 3)]


def test_a_member_that_joins_an_existing_group_claims_without_reading_the_directories(group):
    group.join("a", {"t": 1})
    group.settle()
    b = group.join("b", {"t": 1})
    asked = Multis(group, b)
    group.settle()
    assert b.owned == partitions(4, 5, 6, 7)
    assert "exists" not in asked.counts
    assert asked.counts["multi"] == 2, "a claim, and another once a gave up the owner znode in the way"


def test_a_deleted_directory_of_owners_is_made_again(group):
    a = group.join("a", {"t": 1})
    group.settle()
    a.coordinator.close(5)
    turns_until_closed(a)
    group.admin.delete(OWNERS)
    b = group.join("b", {"t": 1})
    group.settle()
    assert b.owned == partitions(*range(8))


def turns_until_closed(member):
    while not member.coordinator.is_closed:
        member.coordinator.turn()


def test_a_deleted_registration_is_reported_and_an_ended_session_is_not_taken_for_one(group, caplog):
    a = group.join("a", {"t": 1})
    group.settle()
    with caplog.at_level(logging.WARNING):
        group.admin.delete(f"{IDS}/g_a")
        group.settle()
    assert "another client deleted my id znode" in caplog.text
    assert a.owned == partitions(*range(8))
    caplog.clear()
    group.server.auto_deliver = False
    with caplog.at_level(logging.WARNING):
        group.server.expire(a.store.session_id)
        # the list of members changes before the client learns that its own session has ended
        while group.server.deliver_next(a.store):
            turns(a)
    assert a.phase is Phase.STABLE
    assert "expired" in caplog.text
    assert "somebody deleted" not in caplog.text
