"""Conversations recorded from real brokers: the coordinator gives the same answers, except for listed differences.

`python -m tests.support.record_group_conversations` records them. The test compares errors, generations, leaders,
member lists, assignments and which requests wait. Names stand for member ids.
"""

import json
from pathlib import Path

import pytest

from tests.support.coordinator_player import CoordinatorPlayer
from tests.support.group_conversations import CONVERSATIONS, NEW, read_recording

DOC = Path(__file__).parents[3] / "docs" / "coordination.md"
VERSIONS = ("1.1.1", "2.8.2", "4.1.0")

DIFFERENCES: dict[str, dict[str, set[int]]] = {
    "1.1.1": {
        "all_leave, old": {2},
        "follower_with_another_subscription, old": {4},
        "groups_and_members_that_nobody_knows, old": {0},
        "heartbeat_in_each_state, old": {7, 8},
        "leaders_session_ends_while_completing, old": {4},
        "lone_member, old": {2},
        "protocols_that_do_not_fit, old": {0, 1},
        "rebalance_timeout_shorter_than_the_session, old": {3},
        "values_that_cannot_be, old": {0, 1, 2, 3},
    },
    "2.8.2": {"static_member_starts_again, new": {7}},
}
"""{version: {conversation: indexes of the answers that differ}}. docs/coordination.md explains the differences."""


def ours(name):
    conversation, family = CONVERSATIONS[name]
    player = CoordinatorPlayer(family, "g")
    conversation(player)
    return json.loads(json.dumps(player.told()))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_coordinator_answers_as_a_broker_of_this_version_does(version):
    different = {}
    for name, recorded in read_recording(version).items():
        told = ours(name)
        assert len(recorded) == len(told), f"{name}: {recorded[-1]}"
        if places := {place for place, pair in enumerate(zip(recorded, told, strict=True)) if pair[0] != pair[1]}:
            different[name] = places
    assert different == DIFFERENCES.get(version, {})


@pytest.mark.parametrize("version", VERSIONS)
def test_every_conversation_is_recorded(version):
    wanted = {name for name, (_, family) in CONVERSATIONS.items() if version != "1.1.1" or family is not NEW}
    assert set(read_recording(version)) == wanted


def test_every_difference_stands_in_the_document():
    text = DOC.read_text(encoding="utf-8")
    for version, by_name in DIFFERENCES.items():
        for name in by_name:
            assert f"`{name.partition(',')[0]}`" in text, f"{version}: {name}"
