import logging

import pytest

from legacy_consumer.operations.admin.verification import verify_group
from spark_source.errors import LiveGroupError, OwnershipLostError
from spark_source.messages.group_claim import GroupClaim
from spark_source.messages.group_progress import GroupProgress
from zk_layout.errors import SessionExpiredError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicPartition

A, B, U = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.fixture
def server():
    return MemoryZooKeeper()


@pytest.fixture
def store(server):
    store = MemoryStore(server)
    store.start()
    store.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0],"1":[0]}}', make_parents=True)
    yield store
    store.close()


def commit(store, partition, offset):
    path = f"/consumers/g/offsets/t/{partition}"
    if store.exists(path) is None:
        store.create(path, b"%d" % offset, make_parents=True)
    else:
        store.set_data(path, b"%d" % offset)


def committed(store):
    return [
        znode and int(znode.data) for znode in store.get_data_many([f"/consumers/g/offsets/t/{n}" for n in range(2)])
    ]


def test_finished_batches_become_the_offsets_of_the_group(store):
    progress = GroupProgress(store, "g", None)
    progress.commit({A: 5, B: 0})
    assert committed(store) == [5, 0]
    progress.commit({A: 9, B: 0})
    assert committed(store) == [9, 0]
    assert store.get_data("/consumers/g/offsets/t/1").stat.version == 0


def test_the_groups_committed_offset_is_never_moved_back(store, caplog):
    commit(store, 0, 50)
    progress = GroupProgress(store, "g", None)
    with caplog.at_level(logging.WARNING):
        progress.commit({A: 10})
        progress.commit({A: 20})
    assert committed(store)[0] == 50
    assert caplog.text.count("has committed 50 in t/0 and the stream is at 10") == 1
    progress.commit({A: 60})
    assert committed(store)[0] == 60


def test_a_commit_of_another_client_is_reported_and_overwritten(store, caplog):
    progress = GroupProgress(store, "g", None)
    progress.commit({A: 5})
    commit(store, 0, 2)
    with caplog.at_level(logging.WARNING):
        progress.commit({A: 9})
    assert committed(store)[0] == 9
    assert "another client committed 2 of t/0, the stream commits 9 over it" in caplog.text


def test_a_commit_that_succeeds_with_the_last_try_reports_no_failure(store, monkeypatch, caplog):
    progress = GroupProgress(store, "g", None)
    progress.commit({A: 5})
    write, others = store.multi, [2, 3]

    def overtaken(ops, **how):
        if others:
            commit(store, 0, others.pop())
        return write(ops, **how)

    monkeypatch.setattr(store, "multi", overtaken)
    with caplog.at_level(logging.WARNING):
        progress.commit({A: 9})
    assert committed(store)[0] == 9
    assert caplog.text.count("another client committed") == 2
    assert "faster than they can be committed" not in caplog.text


def test_a_claim_is_one_member_that_owns_every_partition(store):
    claim = GroupClaim(store, "g")
    claim.hold([A])
    [member] = store.get_children("/consumers/g/ids")
    assert store.get_data("/consumers/g/owners/t/0").data == f"{member}-0".encode()
    claim.hold([A, B])
    assert store.get_children("/consumers/g/owners/t") == ("0", "1")
    GroupProgress(store, "g", claim).commit({A: 5, B: 6})
    assert committed(store) == [5, 6]
    claim.release()
    claim.release()
    assert (store.get_children("/consumers/g/ids"), store.get_children("/consumers/g/owners/t")) == ((), ())


def test_a_member_that_comes_later_ends_a_stream_that_wants_to_be_alone_before_it_commits(store):
    progress = GroupProgress(store, "g", None, alone=True)
    progress.commit({A: 5})
    store.create("/consumers/g/ids/somebody", b"{}", ephemeral=True, make_parents=True)
    progress.commit({A: 5})
    with pytest.raises(LiveGroupError, match=r"has live members \(somebody\)"):
        progress.commit({A: 6})
    assert committed(store)[0] == 5


def test_a_log_of_another_topic_is_committed_though_its_offset_is_the_same(store):
    progress = GroupProgress(store, "g", None)
    progress.commit({A: 5})
    progress.forget([A])
    store.delete("/brokers/topics/t")
    store.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0],"1":[0]}}')
    progress.commit({A: 5})
    assert store.get_data("/consumers/g/offsets/t/0").stat.mzxid > store.exists("/brokers/topics/t").czxid


def test_partitions_of_an_expired_session_are_claimed_again(server, store):
    claim = GroupClaim(store, "g")
    claim.hold([A, B])
    server.expire(store.session_id)
    assert store.get_children("/consumers/g/ids") == ()
    claim.hold([A, B])
    assert store.get_children("/consumers/g/owners/t") == ("0", "1")
    GroupProgress(store, "g", claim).commit({A: 5})


def test_a_claim_whose_registration_was_deleted_registers_again(store):
    claim = GroupClaim(store, "g")
    claim.hold([A, B])
    store.delete(f"/consumers/g/ids/{claim.consumer_id}")
    claim.hold([A, B])
    GroupProgress(store, "g", claim).commit({A: 5})
    assert committed(store)[0] == 5
    store.set_data(f"/consumers/g/ids/{claim.consumer_id}", b"{}")
    claim.hold([A, B])
    assert not verify_group(store, "g").problems


def test_a_claim_makes_its_registration_again_in_the_place_of_one_that_no_session_ends(store):
    claim = GroupClaim(store, "g")
    claim.hold([A])
    path = f"/consumers/g/ids/{claim.consumer_id}"
    data = store.get_data(path).data
    store.delete(path)
    store.create(path, data)
    claim.hold([A])
    assert store.exists(path).ephemeral_owner == store.session_id
    claim.release()
    assert store.get_children("/consumers/g/ids") == ()


def test_a_claim_is_registered_for_the_topics_that_it_reads_by_now(store):
    claim = GroupClaim(store, "g")
    claim.hold([A, B])
    store.create("/brokers/topics/u", b'{"version":1,"partitions":{"0":[0]}}')
    claim.hold([A, B, U])
    assert not verify_group(store, "g").problems
    store.delete("/brokers/topics/t")
    claim.hold([U])
    assert not verify_group(store, "g").problems


def test_an_earlier_session_of_the_stream_is_no_other_client(server, store):
    first, second = MemoryStore(server), MemoryStore(server)
    first.start()
    second.start()
    GroupClaim(first, "g", "me").hold([A])
    again = GroupClaim(second, "g", "me")
    with pytest.raises(SessionExpiredError, match="an earlier session of g_me is not over yet"):
        again.hold([A])
    first.close()
    again.hold([A])
    second.close()


def test_leaving_without_zookeeper_hides_no_error(server, store):
    claim = GroupClaim(store, "g")
    claim.hold([A])
    server.suspend(store)
    claim.release()
    server.resume(store)
    claim.hold([A])
    server.expire(store.session_id)
    claim.release()


def test_a_group_with_members_is_not_claimed(store):
    store.create("/consumers/g/ids/somebody", b"{}", ephemeral=True, make_parents=True)
    with pytest.raises(LiveGroupError) as caught:
        GroupClaim(store, "g").hold([A])
    assert caught.value.members == ("somebody",)
    assert str(caught.value).endswith("claimOwnership=true must be the only member in any case")
    assert store.get_children("/consumers/g/ids") == ("somebody",)


def test_an_owner_znode_that_no_session_ends_is_not_waited_for_though_it_names_the_stream(store):
    claim = GroupClaim(store, "g")
    claim.hold([A])
    owner = store.get_data("/consumers/g/owners/t/0").data
    store.delete("/consumers/g/owners/t/0")
    store.create("/consumers/g/owners/t/0", owner)
    with pytest.raises(OwnershipLostError, match=f"t/0 by {owner.decode()}"):
        claim.hold([A])
    assert store.get_children("/consumers/g/ids") == ()


def test_an_owned_partition_is_not_claimed_and_no_znode_is_left(store):
    claim = GroupClaim(store, "g")
    claim.hold([A])
    store.delete("/consumers/g/owners/t/0")
    store.create("/consumers/g/owners/t/0", b"thief-0")
    with pytest.raises(OwnershipLostError, match="t/0 by thief-0"):
        claim.hold([A])
    assert store.get_children("/consumers/g/ids") == ()


def test_a_commit_of_a_partition_that_is_no_longer_owned_is_refused(store):
    claim = GroupClaim(store, "g")
    claim.hold([A])
    store.delete("/consumers/g/owners/t/0")
    with pytest.raises(OwnershipLostError):
        GroupProgress(store, "g", claim).commit({A: 5})
    assert committed(store)[0] is None
