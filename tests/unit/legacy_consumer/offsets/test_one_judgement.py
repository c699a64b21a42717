"""Every tool and a member judge every partition alike, whatever its offset znode holds."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.agreement import check_agreement
from tests.support.memory_cluster import MemoryCluster
from zk_layout.model import TopicPartition

WRITTEN = st.one_of(
    st.none(), st.integers(-1, 30).map(str), st.sampled_from(["", "7\n", " 7", "x", "1e3", "99999999999999999999"])
)
PARTITION = st.tuples(WRITTEN, st.integers(0, 20), st.integers(0, 10), st.booleans())


@pytest.fixture
def new_cluster():
    with pytest.MonkeyPatch.context() as patch:
        yield lambda: MemoryCluster(patch)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(partitions=st.lists(PARTITION, min_size=1, max_size=5), has_deletions=st.booleans())
def test_describe_the_doctor_a_reset_spark_and_a_member_agree(new_cluster, partitions, has_deletions):
    """partitions: (the offset znode's data, the log's begin, its length, whether the topic was created afterwards)."""
    cluster = new_cluster()
    if has_deletions:
        cluster.topic("another")
        cluster.drop("another")
    # a separate topic for each, so that each can be created again alone
    for number, (written, begin, length, is_reborn) in enumerate(partitions):
        if not is_reborn:
            cluster.topic(f"t{number}", (begin, begin + length))
        if written is not None:
            cluster.put(f"/consumers/g/offsets/t{number}/0", written)
        if is_reborn:
            cluster.topic(f"t{number}", (begin, begin + length))
    cluster.join("g", "m", json.dumps({f"t{number}": 1 for number in range(len(partitions))}))
    found = check_agreement(cluster, "g")
    assert found.keys() == {TopicPartition(f"t{n}", 0) for n in range(len(partitions))}
