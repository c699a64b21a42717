import re

from legacy_consumer.member.consumer_id import make_consumer_id
from tests.support.group_members import FakeClock


def test_a_made_up_id_has_the_form_of_the_jvms(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "host1")
    made = {make_consumer_id("group1", None, FakeClock()) for _ in range(100)}
    assert all(re.fullmatch(r"group1_host1-\d+-[0-9a-f]{8}", each) for each in made)
    assert len(made) == 100


def test_a_configured_id_stands_behind_the_group():
    assert make_consumer_id("group1", "consumer1", FakeClock()) == "group1_consumer1"
