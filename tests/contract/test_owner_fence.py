"""A commit by a member that does not own the partition, over the in-memory ZooKeeper and over real ones."""

import uuid

import pytest

from legacy_consumer.offsets import Commit, ZooKeeperOffsetStore
from legacy_consumer.offsets.progress import Committed
from zk_layout.model import TopicPartition

PARTITIONS = [TopicPartition(topic, n) for topic in ("t", "u") for n in (0, 1)]


@pytest.mark.parametrize("folder", ["", "/owners", "/owners/t", "/offsets", "/owners/t/0"])
def test_a_commit_without_owning_writes_what_nobody_owns_and_leaves_nothing_else_behind(backend, folder):
    store = backend.new_store()
    store.start()
    group = f"g-{uuid.uuid4().hex}"
    store.ensure_path("/consumers")
    if folder:
        store.ensure_path(f"/consumers/{group}{folder}")
    commits = {tp: Commit(tp.partition, Committed(None, None)) for tp in PARTITIONS}
    result = ZooKeeperOffsetStore(store, group).commit(commits, consumer_id=None, session_id=None)
    assert (result.failure, result.refused, result.foreign) == (None, {}, {})
    assert result.unowned == ({PARTITIONS[0]} if folder == "/owners/t/0" else set())
    assert set(result.committed) == {*PARTITIONS} - result.unowned
    for tp in result.committed:
        assert store.get_data(f"/consumers/{group}/offsets/{tp.topic}/{tp.partition}").data == b"%d" % tp.partition
    made = ("/owners", "/owners/t", "/owners/t/0", "/owners/u")
    assert [path for path in made if store.exists(f"/consumers/{group}{path}")] == [
        path for path in made if f"{folder}/".startswith(f"{path}/")
    ]
