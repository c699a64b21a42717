"""Registrations that an ACL hides. Every client may create below `ids`, so a stranger can leave one in any group."""

import logging
import uuid

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from legacy_consumer import ConsumerConnector, Phase
from tests.support.fake_kafka import FakeFetchers, FakeKafka
from tests.support.waiting import eventually
from zk_layout.codecs import encode_registration, encode_topic
from zk_layout.model import ConsumerRegistration, SubscriptionPattern, TopicAssignment

pytestmark = pytest.mark.zookeeper


@pytest.fixture
def stranger(kazoo):
    client = KazooClient(kazoo.connect, auth_data=[("digest", "stranger:secret")])
    client.start()
    yield client
    client.stop()
    client.close()


def test_a_registration_that_an_acl_forbids_to_read_is_left_out_and_stops_no_member(kazoo, stranger, caplog):
    group, topic = (uuid.uuid4().hex for _ in range(2))
    admin = kazoo.new_store()
    admin.start()
    data = encode_topic(TopicAssignment(dict.fromkeys(range(4), (0,))))
    admin.create(f"/brokers/topics/{topic}", data, make_parents=True)
    kafka = FakeKafka()
    members = []

    def join():
        members.append(
            ConsumerConnector(
                store=kazoo.new_store(),
                fetchers=FakeFetchers(kafka),
                zookeeper_connect="given",
                group_id=group,
                zookeeper_session_timeout_ms=4000,
            )
        )
        members[-1].create_message_streams({topic: 1})

    def shared():
        return [len(member.status.owned) for member in members if member.status.phase is Phase.STABLE]

    try:
        join()
        registration = ConsumerRegistration(SubscriptionPattern.STATIC, ((topic, 1),), 0)
        forbidden = f"/consumers/{group}/ids/{group}_0"
        acl = [make_digest_acl("stranger", "secret", all=True)]
        with caplog.at_level(logging.WARNING):
            stranger.create(forbidden, encode_registration(registration), ephemeral=True, acl=acl)
            eventually(lambda: f"leaves out member {group}_0 (unknown), which is unreadable" in caplog.text)
            join()
        eventually(lambda: shared() == [2, 2])
        stranger.delete(forbidden)
        join()
        eventually(lambda: sorted(shared()) == [1, 1, 2])
    finally:
        for member in members:
            member.shutdown()
