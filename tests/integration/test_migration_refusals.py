"""A migration that ZooKeeper or the brokers forbid: one line names the refusal, and no migration stays half done."""

from __future__ import annotations

import json

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from legacy_consumer.embedded import EmbeddedKafka, EmbeddedZooKeeper
from tests.support.program import run_program
from zk_layout.kazoo_store import KazooStore
from zk_layout.settings import ZkSettings

pytestmark = pytest.mark.kafka

AUTHORIZER = {
    "1.1.1": "kafka.security.auth.SimpleAclAuthorizer",
    "3.9.1": "kafka.security.authorizer.AclAuthorizer",
}


def allow(store, resource, principal, operation):
    rule = {"principal": f"User:{principal}", "permissionType": "Allow", "operation": operation, "host": "*"}
    store.create(f"/kafka-acl/{resource}", json.dumps({"version": 1, "acls": [rule]}).encode(), make_parents=True)


class Guarded:
    """A cluster whose brokers forbid the group `closed`, and allow only to describe the topic `secret`."""

    def __init__(self, version):
        self.zookeeper = EmbeddedZooKeeper()
        self.zookeeper.start()
        self.store = KazooStore(ZkSettings(self.zookeeper.connect))
        self.store.start()
        allow(self.store, "Group/closed", "somebody-else", "All")
        allow(self.store, "Topic/secret", "ANONYMOUS", "Describe")
        properties = {"authorizer.class.name": AUTHORIZER[version], "allow.everyone.if.no.acl.found": "true"}
        self.kafka = EmbeddedKafka(version, zookeeper=self.zookeeper, properties=properties)
        self.kafka.start()
        for topic in ("orders", "secret"):
            self.kafka.create_topic(topic, 2)

    def commit(self, group, *topics):
        for topic in topics:
            for number in range(2):
                self.store.create(f"/consumers/{group}/offsets/{topic}/{number}", b"0", make_parents=True)

    def migrate(self, verb, group, *arguments):
        return run_program("migrate", verb, group, *arguments, "--zookeeper", self.zookeeper.connect)

    def forbid(self, path):
        client = KazooClient(self.zookeeper.connect)
        client.start()
        client.set_acls(path, [make_acl("world", "anyone", read=True, admin=True)])
        client.stop()
        client.close()

    def close(self):
        self.store.close()
        self.kafka.close()
        self.zookeeper.close()


@pytest.fixture(scope="module", params=list(AUTHORIZER))
def guarded(request):
    made = Guarded(request.param)
    yield made
    made.close()


def test_brokers_that_refuse_the_group_are_an_error_and_nothing_is_written(guarded, tmp_path):
    backup = tmp_path / "b.json"
    guarded.commit("closed", "orders")
    guarded.commit("open", "orders")

    def is_refused(*arguments):
        done = guarded.migrate(*arguments)
        assert (done.code, done.out) == (1, ""), done
        [line] = done.err.splitlines()
        assert line.startswith("Error: the brokers do not let this client into group 'closed': ")
        assert "authorization failed" in line

    is_refused("apply", "closed", "--execute", "--backup", backup)
    assert not backup.exists()
    assert guarded.store.exists("/consumers/closed/migration") is None
    # commands that only read ask the coordinator only after some group has had one
    assert guarded.migrate("apply", "open", "--execute", "--backup", backup).code == 0
    is_refused("plan", "closed")
    is_refused("verify", "closed")


def test_a_topic_whose_offsets_may_not_be_committed_is_named_with_the_count_of_written_partitions(guarded, tmp_path):
    guarded.commit("half", "orders", "secret")
    done = guarded.migrate("apply", "half", "--execute", "--backup", tmp_path / "b.json")
    assert done.code == 1, done
    assert done.err == (
        "Error: 2 of 4 partitions of group 'half' were written to Kafka, then: secret/0: Broker: Topic authorization "
        "failed; the same command goes on from there\n"
    )
    again = json.loads(guarded.migrate("plan", "half", "--json").out)
    assert again["phase"] == "applying"
    assert [(one["topic"], one["action"]) for one in again["partitions"]] == [
        ("orders", "keep"), ("orders", "keep"), ("secret", "write"), ("secret", "write")
    ]  # fmt: skip


def test_a_znode_that_may_not_be_written_ends_it_before_kafka_is_written_to(guarded, tmp_path):
    guarded.commit("locked", "orders")
    guarded.forbid("/consumers/locked")
    done = guarded.migrate("apply", "locked", "--execute", "--backup", tmp_path / "b.json")
    assert done.code == 1
    assert done.err == (
        "Error: /consumers/locked/migration may not be accessed with these credentials: an ACL forbids it\n"
    )
    plan = json.loads(guarded.migrate("plan", "locked", "--json").out)
    assert plan["phase"] is None
    assert [(one["kafka"], one["action"]) for one in plan["partitions"]] == [(None, "write")] * 2
