"""Commits that cannot move a group backwards by accident."""

from itertools import count

import pytest

from legacy_consumer.errors import OffsetError
from legacy_consumer.offsets import Commit, ZooKeeperOffsetStore
from legacy_consumer.offsets.progress import Committed
from legacy_consumer.offsets.store import refuse_unreadable
from tests.support.closed_znodes import close_owner
from zk_layout.errors import ConnectionLostError, SessionExpiredError
from zk_layout.memory_store import Fault, MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
NEW = Committed(None, None)


class Rig:
    def __init__(self):
        self.server = MemoryZooKeeper()
        self.zk = MemoryStore(self.server)
        self.zk.start()
        self.offsets = ZooKeeperOffsetStore(self.zk, "g")
        self.join()

    def join(self):
        """Register the member and claim both partitions, in the present session."""
        self.zk.create("/consumers/g/ids/g_a", b"x", ephemeral=True, make_parents=True)
        for n in (0, 1):
            self.zk.create(f"/consumers/g/owners/t/{n}", b"g_a-0", ephemeral=True, make_parents=True)

    def commit(self, commits, **options):
        options = {"consumer_id": "g_a", "session_id": self.zk.session_id, **options}
        return self.offsets.commit({tp: Commit(offset, seen) for tp, (offset, seen) in commits.items()}, **options)

    def stored(self, tp):
        return self.zk.get_data(f"/consumers/g/offsets/{tp.topic}/{tp.partition}").data

    def write(self, tp, text):
        self.zk.set_data(f"/consumers/g/offsets/{tp.topic}/{tp.partition}", text)


@pytest.fixture
def rig():
    return Rig()


def test_a_first_commit_creates_the_znodes_as_the_jvm_writes_them(rig):
    result = rig.commit({P0: (7, NEW), P1: (0, NEW)})
    assert (rig.stored(P0), rig.stored(P1)) == (b"7", b"0")
    assert result.committed == {P0: Committed(7, 0), P1: Committed(0, 0)}
    assert result.foreign == {}


def test_a_commit_is_one_request_once_the_directories_exist(rig):
    seen = rig.commit({P0: (7, NEW), P1: (0, NEW)}).committed
    rig.server.requests.clear()
    rig.commit({P0: (8, seen[P0]), P1: (1, seen[P1])})
    assert dict(rig.server.requests) == {"multi": 1}


def test_an_offset_somebody_else_wrote_is_reported_and_not_overwritten(rig):
    seen = rig.commit({P0: (7, NEW), P1: (5, NEW)}).committed
    rig.write(P0, b"3")
    result = rig.commit({P0: (8, seen[P0]), P1: (6, seen[P1])})
    assert rig.stored(P0) == b"3"
    assert rig.stored(P1) == b"6", "the others are committed all the same"
    assert result.foreign == {P0: Committed(3, 1)}
    assert result.committed == {P1: Committed(6, 1)}


def test_an_owner_znode_that_an_acl_closes_holds_up_no_other_offset_where_somebody_else_wrote_one(rig, monkeypatch):
    seen = rig.commit({P0: (7, NEW), P1: (5, NEW)}).committed
    rig.write(P0, b"3")
    closed = close_owner(monkeypatch, rig.zk, P0)
    result = rig.commit({P0: (8, seen[P0]), P1: (6, seen[P1])})
    assert (result.failure, result.foreign, result.refused) == (None, {}, {P0: closed})
    assert (rig.stored(P0), rig.stored(P1)) == (b"3", b"6")


def test_an_owner_znode_that_an_acl_closes_hides_no_other_that_is_gone(rig, monkeypatch):
    seen = rig.commit({P0: (7, NEW), P1: (5, NEW)}).committed
    rig.zk.delete("/consumers/g/owners/t/0")
    close_owner(monkeypatch, rig.zk, P1)
    result = rig.commit({P0: (8, seen[P0]), P1: (6, seen[P1])})
    assert (result.failure, result.unowned) == (None, {P0})
    assert (rig.stored(P0), rig.stored(P1)) == (b"7", b"6")


def test_the_offset_that_is_to_be_committed_is_foreign_where_somebody_else_wrote_it(rig):
    seen = rig.commit({P0: (7, NEW)}).committed[P0]
    rig.write(P0, b"3")
    assert rig.commit({P0: (3, seen)}).foreign == {P0: Committed(3, 1)}


def test_an_offset_znode_that_appeared_since_the_claim_is_foreign(rig):
    rig.zk.create("/consumers/g/offsets/t/0", b"9", make_parents=True)
    assert rig.commit({P0: (1, NEW)}).foreign == {P0: Committed(9, 0)}


def test_an_offset_that_somebody_else_wrote_where_ours_was_deleted_is_foreign_though_it_looks_like_ours(rig):
    rig.commit({P0: (1, NEW)})
    rig.zk.delete("/consumers/g/offsets/t/0")
    rig.zk.create("/consumers/g/offsets/t/0", b"1")
    # the member claimed the partition again while it had no offset
    assert rig.commit({P0: (3, NEW)}).foreign == {P0: Committed(1, 0)}
    assert rig.stored(P0) == b"1"


def test_an_offset_znode_that_vanished_is_foreign(rig):
    seen = rig.commit({P0: (7, NEW)}).committed[P0]
    rig.zk.delete("/consumers/g/offsets/t/0")
    assert rig.commit({P0: (8, seen)}).foreign == {P0: NEW}


@pytest.mark.parametrize("request_number", range(1, 8))
def test_folders_that_somebody_deletes_in_the_midst_of_a_first_commit_are_made_again(rig, request_number):
    requests = iter(range(1, 100))

    def delete_folders(*_):
        if next(requests) == request_number:
            rig.server.fault = None
            for path in ("/consumers/g/offsets/t", "/consumers/g/offsets"):
                if operator.exists(path):
                    operator.delete(path)

    operator = MemoryStore(rig.server)
    operator.start()
    rig.server.fault = delete_folders
    result = rig.commit({P0: (7, NEW), P1: (0, NEW)})
    assert next(requests) > request_number, "the folders were deleted"
    assert (result.refused, result.failure) == ({}, None)
    assert (rig.stored(P0), rig.stored(P1)) == (b"7", b"0")


def test_a_member_without_its_registration_commits_nothing(rig):
    rig.zk.delete("/consumers/g/ids/g_a")
    result = rig.commit({P0: (7, NEW)})
    assert isinstance(result.failure, SessionExpiredError)
    assert "not registered any more" in str(result.failure)
    assert rig.zk.exists("/consumers/g/offsets") is None


def test_a_commit_of_a_dead_session_is_refused(rig):
    assert isinstance(rig.commit({P0: (7, NEW)}, session_id=12345).failure, SessionExpiredError)


def test_a_partition_without_its_owner_znode_is_left_out(rig):
    rig.zk.delete("/consumers/g/owners/t/0")
    result = rig.commit({P0: (7, NEW), P1: (5, NEW)})
    assert result.unowned == {P0}
    assert result.committed == {P1: Committed(5, 0)}


def test_committing_without_owning_needs_no_owner_znode(rig):
    rig.zk.delete("/consumers/g/owners/t/0")
    assert rig.commit({P0: (7, NEW)}, consumer_id=None).committed == {P0: Committed(7, 0)}


@pytest.mark.parametrize("folder", ["/consumers/g/owners/t", "/consumers/g/owners", "/consumers/g", "/consumers"])
@pytest.mark.parametrize("request_number", range(1, 9))
def test_a_commit_without_owning_never_comes_behind_a_members_claim(folder, request_number):
    server = MemoryZooKeeper()
    committer, member = MemoryStore(server), MemoryStore(server)
    committer.start()
    member.start()
    committer.ensure_path(folder)
    requests = count(1)

    def claim(*_):
        if next(requests) == request_number:
            server.fault = None
            member.create("/consumers/g/owners/t/0", b"g_b-0", ephemeral=True, make_parents=True)

    server.fault = claim
    commits = {P0: Commit(7, NEW), P1: Commit(5, NEW)}
    result = ZooKeeperOffsetStore(committer, "g").commit(commits, consumer_id=None, session_id=None)
    server.fault = None
    owner, offset = member.exists("/consumers/g/owners/t/0"), member.exists("/consumers/g/offsets/t/0")
    assert result.failure is None
    assert result.unowned == ({P0} if offset is None else set())
    assert set(result.committed) == {P0, P1} - result.unowned
    assert owner is None or offset is None or offset.mzxid < owner.czxid
    if owner is None:
        made = [path for path in ("/consumers/g/owners", "/consumers/g/owners/t") if member.exists(path)]
        assert made == [path for path in ("/consumers/g/owners", "/consumers/g/owners/t") if folder.startswith(path)]


def test_our_own_write_whose_reply_was_lost_is_not_taken_for_a_foreign_one(rig):
    seen = rig.commit({P0: (7, NEW)}).committed[P0]
    rig.server.fault = lambda _session, kind: Fault.LOSE_REPLY if kind == "multi" else None
    assert isinstance(rig.commit({P0: (8, seen)}).failure, ConnectionLostError)
    rig.server.fault = None
    stands = rig.offsets.read([P0])[P0]
    assert rig.offsets.wrote(P0, stands)
    assert not rig.offsets.wrote(P0, Committed(stands.offset, stands.version + 1))
    result = rig.commit({P0: (8, seen)})
    assert result.foreign == {}
    assert rig.offsets.wrote(P0, stands), "the caller may be interrupted before it notes this answer"
    assert result.committed == {P0: Committed(8, 1)}


def test_an_operators_write_is_foreign_though_an_unanswered_commit_of_an_ended_session_would_have_made_the_same(rig):
    seen = rig.commit({P0: (7, NEW)}).committed[P0]
    rig.server.fault = lambda _session, kind: Fault.LOSE_REQUEST if kind == "multi" else None
    assert isinstance(rig.commit({P0: (9, seen)}).failure, ConnectionLostError)
    rig.server.fault = None
    rig.server.expire(rig.zk.session_id)
    rig.join()
    seen = rig.offsets.read([P0])[P0]
    assert seen.offset == 7
    rig.write(P0, b"9")
    result = rig.commit({P0: (8, seen)})
    assert {tp: theirs.offset for tp, theirs in result.foreign.items()} == {P0: 9}
    assert rig.stored(P0) == b"9"


def test_a_big_commit_is_cut_below_the_request_limit():
    server = MemoryZooKeeper(max_multi_bytes=3000)
    zk = MemoryStore(server)
    zk.start()
    offsets = ZooKeeperOffsetStore(zk, "g")
    many = {TopicPartition("t", n): Commit(n, NEW) for n in range(100)}
    result = offsets.commit(many, consumer_id=None, session_id=zk.session_id)
    assert {tp: seen.offset for tp, seen in result.committed.items()} == {tp: tp.partition for tp in many}
    assert server.requests["multi"] > 5


def test_reading_finds_what_is_there_and_takes_minus_one_for_none(rig):
    rig.commit({P0: (7, NEW)})
    rig.zk.create("/consumers/g/offsets/t/1", b"-1", make_parents=True)
    assert rig.offsets.read([P0, P1, TopicPartition("t", 2)]) == {
        P0: Committed(7, 0),
        P1: Committed(None, 0),
        TopicPartition("t", 2): NEW,
    }


def test_an_offset_that_is_no_number_is_the_problem_of_its_partition_alone(rig):
    rig.zk.create("/consumers/g/offsets/t/0", b"12 ", make_parents=True)
    rig.zk.create("/consumers/g/offsets/t/1", b"12")
    found = rig.offsets.read([P0, P1])
    assert (found[P0].offset, found[P0].version) == (None, 0)
    assert "/consumers/g/offsets/t/0" in found[P0].problem
    assert found[P1] == Committed(12, 0)
    with pytest.raises(OffsetError, match="t/0: /consumers/g/offsets/t/0 holds"):
        refuse_unreadable(found)


def test_a_commit_of_several_requests_tells_what_was_written_when_a_later_one_fails():
    server = MemoryZooKeeper(max_multi_bytes=3000)
    zk = MemoryStore(server)
    zk.start()
    zk.ensure_path("/consumers/g/offsets/t")
    offsets = ZooKeeperOffsetStore(zk, "g")
    many = {TopicPartition("t", n): Commit(n, NEW) for n in range(40)}
    multis = []

    def lose_the_third(_session, kind):
        multis.append(kind)
        return Fault.LOSE_REQUEST if multis.count("multi") == 3 else None

    server.fault = lose_the_third
    result = offsets.commit(many, consumer_id=None, session_id=None, unfenced=True)
    server.fault = None
    assert isinstance(result.failure, ConnectionLostError)
    there = {TopicPartition("t", int(n)) for n in zk.get_children("/consumers/g/offsets/t")}
    assert result.committed.keys() == there
    assert 0 < len(there) < 40
    again = {tp: Commit(commit.offset + 100, result.committed.get(tp, NEW)) for tp, commit in many.items()}
    second = offsets.commit(again, consumer_id=None, session_id=None, unfenced=True)
    assert (len(second.committed), second.foreign, second.failure) == (40, {}, None)


@pytest.mark.parametrize("request_number", range(1, 8))
def test_a_member_does_not_commit_over_a_client_that_takes_its_partition_and_commits(rig, request_number):
    """A JVM member deletes owner znodes by path alone: it may do so before each request of the commit."""
    seen = rig.commit({P0: (7, NEW), P1: (0, NEW)}).committed
    rig.write(P0, b"8")
    thief = MemoryStore(rig.server)
    thief.start()
    requests = count(1)

    def rob(session_id, kind):
        if session_id == rig.zk.session_id and next(requests) == request_number:
            thief.delete("/consumers/g/owners/t/0")
            thief.create("/consumers/g/owners/t/0", b"g_jvm-0", ephemeral=True)
            thief.set_data("/consumers/g/offsets/t/0", b"100")

    rig.server.fault = rob
    result = rig.commit({P0: (9, seen[P0]), P1: (1, seen[P1])})
    if P0 in result.foreign:
        # commit on top of the foreign offset, as commit.conflict=keep does
        result = rig.commit({P0: (9, result.foreign[P0])})
    rig.server.fault = None
    was_robbed = next(requests) > request_number + 1
    assert rig.stored(P0) == (b"100" if was_robbed else b"9")
    assert rig.stored(P1) == b"1"
