"""Members whose watch events are late, while their requests are answered; without threads.

ZooKeeper sends a watch event before the answer to any request that shows the change, but a store may hand it on later.
What such a member then believes is outdated. It must not send the same request again and again for it, and it must get
its share once the events have arrived.
"""

import logging
from collections import Counter
from random import Random

import pytest

from rebalance.led.records import generation_path, leader_path, member_path, round_path
from tests.support.group_members import GROUP, Group
from zk_layout.errors import LegacyConsumerError
from zk_layout.memory_store import Fault, MemoryStore

FOLDER = f"/consumers/{GROUP}"
IDS, OWNERS = f"{FOLDER}/ids", f"{FOLDER}/owners/t"


class World:
    """A group, one to two of whose members hear nothing while other clients write below its folder."""

    def __init__(self, seed):
        self.random = Random(seed)
        self.kind = self.random.choice(["led", "led", "led", "classic", "mixed"])
        self.strategy = self.random.choice(["range", "cooperative-sticky", "sticky"])
        self.backoff_ms = self.random.choice([2000, 0])
        self.group = Group({"t": 6})
        self.deaf = None
        self.story = [self.kind, self.strategy]

    def join(self):
        count = len(self.group.members)
        is_led = self.kind == "led" or (self.kind == "mixed" and count > 0)
        self.group.join(
            "abcde"[count],
            {"t": 1},
            led=self.strategy if is_led else None,
            backoff_ms=self.backoff_ms,
            absence_ms=self.random.choice([0, 0, 2000]),
        )

    def live(self):
        for _ in range(self.random.choice([1, 2, 2, 3])):
            self.join()
        if seconds := self.random.choice([0, 0.25, 7]):
            self.group.pass_time(seconds)
        self.give_cause()
        self.take_turns()
        self.deaf = self.deafen()
        if self.random.random() < 0.3:
            self.deafen()
        if self.random.random() < 0.5:
            self.give_cause()
        if self.random.random() < 0.5:
            self.take_turns()
        self.meddle()
        if self.random.random() < 0.4:
            self.take_turns()
            self.meddle()
        if self.random.random() < 0.25:
            self.lose_a_reply()

    def give_cause(self):
        """Do something to which the members answer with requests."""
        member = self.random.choice(self.group.members).consumer_id
        cause = self.random.choice(
            ["join", "topic", "expire", "nothing", "leader", "round", "generation", "record", "id"]
        )
        self.story.append(f"cause {cause} {member}")
        paths = {
            "leader": leader_path(GROUP),
            "round": round_path(GROUP),
            "generation": generation_path(GROUP),
            "record": member_path(GROUP, member),
            "id": f"{IDS}/{member}",
        }
        if cause == "join":
            self.join()
        elif cause == "topic":
            self.group.add_partitions("t", 8)
        elif cause == "expire":
            self.group.server.expire(self.random.choice(self.group.members).store.server_session_id)
        elif cause in paths and self.group.admin.exists(paths[cause]) is not None:
            self.group.admin.delete(paths[cause])

    def take_turns(self):
        for _ in range(self.random.randrange(14)):
            member = self.random.choice(self.group.members)
            self.story.append(f"turn {member.consumer_id}")
            member.coordinator.turn()

    def deafen(self):
        member = self.random.choice(self.group.members)
        self.story.append(f"deaf {member.consumer_id}")
        self.group.server.stall(member.store)
        return member

    def meddle(self):
        """Write one znode of the group, as another client may."""
        if self.group.admin.exists(FOLDER) is None:
            return
        paths = self.paths(FOLDER)
        shared = [path for path in paths if any(part in path for part in ("coordination/", "/ids/", "/owners/t/"))]
        records = [path for path in shared if "members/" in path]
        path = self.random.choice(records if records and self.random.random() < 0.4 else shared or paths)
        deed = self.random.choice(["delete", "overwrite", "write the same", "write another's", "anew", "ephemeral"])
        self.story.append(f"{deed} {path}")
        admin = self.group.admin
        data = admin.get_data(path).data
        try:
            match deed:
                case "delete":
                    for below in sorted(self.paths(path), key=len, reverse=True):
                        admin.delete(below)
                case "overwrite":
                    admin.set_data(path, b"x")
                case "write the same":
                    admin.set_data(path, data)
                case "write another's":
                    admin.set_data(path, admin.get_data(self.random.choice(paths)).data)
                case _:
                    admin.delete(path)
                    admin.create(path, data, ephemeral=deed == "ephemeral")
        except LegacyConsumerError as error:
            self.story.append(f"refused: {error}")

    def paths(self, root):
        children = () if self.group.admin.exists(root) is None else self.group.admin.get_children(root)
        return [root, *(path for name in children for path in self.paths(f"{root}/{name}"))]

    def lose_a_reply(self):
        session_id, left = self.deaf.store.server_session_id, self.random.randrange(5)

        def fault(session, kind):
            nonlocal left
            if session != session_id or kind not in {"multi", "create", "set_data", "delete"}:
                return None
            left -= 1
            return Fault.LOSE_REPLY if left == -1 else None

        self.group.server.fault = fault

    def requests(self):
        return self.group.server.requests.total()

    def hear(self):
        """Let the events arrive, and take away what only another client can."""
        self.group.server.fault = None
        for member in self.group.members:
            self.group.server.wake(member.store)
        self.group.settle(400)
        self.group.admin.close()
        self.group.admin = MemoryStore(self.group.server)
        self.group.admin.start()
        for path in (*self.paths(IDS)[1:], *self.paths(OWNERS)[1:]):
            stat = self.group.admin.exists(path)
            if stat is not None and not stat.ephemeral_owner:
                self.group.admin.delete(path)

    def shares(self):
        return sorted(len(member.owned) for member in self.group.members)


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_a_member_whose_watch_events_are_late_does_nothing_over_and_over_and_gets_its_share_in_the_end(first, caplog):
    caplog.set_level(logging.INFO)
    for seed in range(first, first + 50):
        world = World(seed)
        world.live()
        caplog.clear()
        before, seconds = world.requests(), world.random.choice([0, 2, 12])
        try:
            world.group.settle(400)
            assert world.requests() - before <= 150
            world.group.pass_time(seconds)
            assert world.requests() - before <= 500
            # each of the members, five at most, may say a thing once
            said = Counter(record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)
            assert [text for text, times in said.items() if times > 5] == []
            world.hear()
            world.group.pass_time(30)
        except AssertionError as error:
            raise AssertionError(f"world {seed}: {world.story}") from error
        count = len({tp for member in world.group.members for tp in member.owned})
        shares = world.shares()
        story = f"world {seed}: {world.story}"
        assert count == sum(shares), story
        assert count in {6, 8}, story
        assert shares[-1] - shares[0] <= 1, story


@pytest.mark.parametrize("backoff_ms", [0, 2000])
@pytest.mark.parametrize("led", [None, "range"])
def test_a_claim_that_finds_the_id_gone_registers_again_though_the_watch_event_is_late(led, backoff_ms, caplog):
    group = Group({"t": 6})
    member = group.join("a", {"t": 1}, led=led, backoff_ms=backoff_ms)
    group.pass_time(6)
    group.add_partitions("t", 8)
    if led:
        # until the leader has given out the new partitions, and before it claims them
        while len(member.led._mine.share.partitions) < 8:
            member.coordinator.turn()
    group.server.stall(member.store)
    group.admin.delete(f"{IDS}/g_a")
    group.settle(200)
    group.pass_time(3)
    assert group.admin.exists(f"{IDS}/g_a") is not None
    assert len(member.owned) == 8
    assert [text for text in caplog.messages if "DEGRADED" in text] == []
