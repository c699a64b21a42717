"""A Python member writes the same znodes as a JVM member, byte for byte."""

import re

import pytest
from kazoo.client import KazooClient

from tests.support.jvm_member import Subscription
from zk_layout.paths import GroupPath

pytestmark = pytest.mark.interop

_TIMESTAMP = re.compile(rb'"timestamp":"\d{13}"')


@pytest.fixture(scope="module")
def kazoo(cluster):
    client = KazooClient(cluster.kafka.zookeeper_connect)
    client.start()
    yield client
    client.stop()
    client.close()


def tree_of(kazoo, group):
    """Return {path below the group: (data, ephemeral, ACL)}, with placeholders for the group's name and timestamps."""
    found = {}

    def walk(path, shown):
        data, stat = kazoo.get(path)
        acls, _ = kazoo.get_acls(path)
        # no data and empty data stay different
        said = data and _TIMESTAMP.sub(b'"timestamp":"T"', data.replace(group.encode(), b"GROUP"))
        found[shown] = (said, stat.ephemeralOwner != 0, tuple(acls))
        for child in sorted(kazoo.get_children(path)):
            walk(f"{path}/{child}", f"{shown}/{child.replace(group, 'GROUP')}")

    walk(GroupPath(group).path, "")
    return found


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        *((kind, version) for kind in ("static", "whitelist") for version in ("0.8.2.2", "0.10.2.2", "1.1.1")),
        ("blacklist", "0.10.2.2"),
    ],
)
def test_same_member_same_znodes(new_group, cluster, kazoo, kind, version):
    prefix = f"bytes-{kind}-{version.replace('.', '')}"
    topics = {f"{prefix}-x": 3, f"{prefix}-y": 2}
    # 1.1.1 escapes these characters, as only 1.0.1 and later do, and readers of any version misread them
    special = "" if version == "1.1.1" else '["/]?'
    subscription = {
        "static": Subscription("static", f"{prefix}-x:2,{prefix}-y:1"),
        "whitelist": Subscription("whitelist", f" '{prefix}-x, {prefix}-y{special}' ", 2),
        "blacklist": Subscription(
            "blacklist", ",".join(t for t in cluster.store.get_children("/brokers/topics") if t not in topics), 2
        ),
    }[kind]

    theirs = new_group(f"{prefix}-of-jvm", topics)
    member = theirs.join(version, "m", subscription)
    theirs.produce(3)
    theirs.verdict()
    member.commit()
    jvm = tree_of(kazoo, theirs.name)
    (registration,) = theirs.snapshot().members.values()
    theirs.leave("m")
    jvm_left = tree_of(kazoo, theirs.name)

    if kind == "static":  # the JVM writes topics in the order of a hash map, ours in the user's order
        subscription = Subscription("static", ",".join(f"{topic}:{n}" for topic, n in registration.subscription))
    ours = new_group(f"{prefix}-of-python", {})
    ours.topics, ours.produced = theirs.topics, theirs.produced
    member = ours.join("python", "m", subscription)
    ours.verdict()
    member.commit()
    python = tree_of(kazoo, ours.name)
    ours.leave("m")
    python_left = tree_of(kazoo, ours.name)

    assert python[f"/offsets/{prefix}-x/0"][0] == b"3"
    for tree in (jvm, jvm_left):
        if version != "0.8.2.2":  # parents of a registration hold empty data from 0.9 on, and none before and in ours
            for path in ("", "/ids"):
                assert tree[path][0] == b""
                tree[path] = (None, *tree[path][1:])
    assert python == jvm
    assert python_left == jvm_left
