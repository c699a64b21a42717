"""Executors that are processes of their own: both formats, batch and stream, with TLS, SASL and a guarded ZooKeeper."""

import json
import subprocess
import sys
import uuid

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from legacy_consumer.librdkafka import Record
from tests.spark import on_a_cluster
from tests.spark.conftest import Tree, child_environment, store_of
from tests.support.broker_cluster import PASSWORD, USER

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

COUNTS = (12, 5)
EVERYTHING = [[partition, n] for partition, count in enumerate(COUNTS) for n in range(count)]
DIGEST = {"zookeeper.auth.digest": "spark:secret", "zookeeper.set.acl": "true"}


def test_executors_of_their_own_read_as_threads_do(cluster, tmp_path, spark_home):
    topic = cluster.new_topic(len(COUNTS))
    group = f"g-{uuid.uuid4().hex[:8]}"
    cluster.produce(topic, [Record(None, b"x", partition) for partition, n in enumerate(COUNTS) for _ in range(n)])
    connect = cluster.kafka.zookeeper_connect
    with store_of(connect) as store:
        tree = Tree(connect, store)
        for name, offset in ((f"{group}-a", 2), (f"{group}-b", 5)):
            for partition in range(2):
                tree.commit(name, topic, partition, offset)
        tree.commit(f"malformed-{group}", topic, 0, "five")
    told = {
        "zookeeper": connect,
        "topic": topic,
        "group": group,
        "malformed": f"malformed-{group}",
        "digest": DIGEST,
        "security": {
            "tls": {"security.protocol": "SSL", "ssl.ca.location": str(cluster.ca)},
            "sasl": {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.plain.without.tls": "true",
                "sasl.username": USER,
                "sasl.password": PASSWORD,
            },
        },
        "steps": [
            "offsets_by_executor",
            "messages_by_listener",
            "refused",
            "messages_stream",
            "malformed",
            "messages_of_a_dying_executor",
        ],
    }
    done = subprocess.run(
        [sys.executable, on_a_cluster.__file__, json.dumps(told)],
        cwd=tmp_path,
        env=child_environment(SPARK_HOME=spark_home, TMPDIR=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=360,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    found = json.loads(done.stdout.splitlines()[-1])

    lags = [[f"{group}-{name}", p, COUNTS[p] - offset] for name, offset in (("a", 2), ("b", 5)) for p in range(2)]
    assert [row[:3] for row in found["offsets_by_executor"]] == lags
    assert {tuple(row[3:]) for row in found["offsets_by_executor"]} == {(0,), (1,)}
    assert found["messages_by_listener"] == dict.fromkeys(
        ("tls, columnar", "tls, librdkafka", "sasl, columnar", "sasl, librdkafka"), EVERYTHING
    )
    for complaint in found["refused"]:
        assert complaint.startswith("AnalysisException: ")
        assert complaint.endswith("check security.protocol, sasl.* and ssl.*")
    assert len(found["refused"]) == 2
    assert found["messages_stream"] == EVERYTHING
    assert found["malformed"].startswith(f"4 tries: /consumers/malformed-{group}/offsets/{topic}/0 holds b'five'")
    assert found["messages_of_a_dying_executor"] == EVERYTHING
    refuse_strangers(connect, f"/consumers/stream-{group}/offsets/{topic}/0", b"12")


def refuse_strangers(connect, path, data):
    stranger = KazooClient(connect)
    stranger.start()
    try:
        assert stranger.get(path)[0] == data
        with pytest.raises(NoAuthError):
            stranger.set(path, b"0")
    finally:
        stranger.stop()
        stranger.close()
