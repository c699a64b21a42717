"""Seeded storms over a coordinated group: late and lost replies, deaths, coordinators lost between two effects.

`python -m tests.simulation.coordination [FIRST [COUNT]]` runs seeds and prints the failing ones. World always checks
that the stored generations rise and that no two members have one partition in one generation. After the storm every
living member must become a member of one generation that has all partitions; none may wait for ever.
"""

from __future__ import annotations

import random
import sys

from rebalance.coordination import Settings
from rebalance.coordination.effects import ForgetGroup, StoreGroup, StoreOffsets
from tests.support.coordinated import PARTITIONS, Phase, World

SESSION_MS = 8_000
REBALANCE_MS = 12_000
_STEPS = 120
_MOST_MEMBERS = 5
_QUIET_MS = 3 * (SESSION_MS + REBALANCE_MS)


class Storm(World):
    """A World whose events a seed draws. former: a coordinator that was deposed and has not noticed yet."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.former = None
        self.broken = []
        self.crash_after = None
        self.born = 0
        super().__init__(Settings(group_initial_rebalance_delay_ms=self.chance.choice([0, 0, 1_000])))

    def ask(self, member, kind, **fields):
        handle = next(self._handles)
        self.asked[handle] = member
        request = kind(reply_to=handle, group="g", **fields)
        if self.former is not None and self.chance.random() < 0.3:
            self.refuse_writes(self.former.handle(request, self.now))
        else:
            before = self.coordinator
            self.carry_out(self.coordinator.handle(request, self.now))
            if self.coordinator is not before:
                self.broken.append(member)
        return handle

    def retry(self, member):
        self.broken.append(member)

    def carry_out(self, effects):
        if self.crash_after is None:
            super().carry_out(effects)
            return
        done, self.crash_after = effects[: self.crash_after], None
        super().carry_out(done)
        self.crash()

    def refuse_writes(self, effects):
        """Carry out the effects of a deposed coordinator up to its first write, which is refused: so it notices."""
        for place, effect in enumerate(effects):
            if isinstance(effect, StoreGroup | StoreOffsets | ForgetGroup):
                super().carry_out(effects[:place])
                self.end_former(effects[place + 1 :])
                return
        super().carry_out(effects)

    def end_former(self, undone=()):
        former, self.former = self.former, None
        if former is not None:
            super().carry_out(former.resign(self.now, undone))

    def crash(self):
        """End the coordinator's process and elect another coordinator.

        Replies that are under way may still arrive; members that wait for any other reply lose their connection.
        """
        if self.chance.random() < 0.5:
            self.replies.clear()
        under_way = {handle for handle, _ in self.replies}
        self.broken += [member for member in self.members if member.waits_for not in under_way]
        self.coordinator = self._elected()

    def depose(self):
        self.end_former()
        self.former, self.coordinator = self.coordinator, self._elected()

    # Events.

    def step(self):
        action = self.chance.choices(
            [self.deliver_one, self.lose_one, self.mend_one, self.beat_one, self.wait, self.start_one, self.leave_one,
             self.kill_one, self.change_one, self.fall, self.depose],
            [40, 4, 20, 20, 12, 6, 2, 2, 3, 3, 1],
        )[0]  # fmt: skip
        action()

    def deliver_one(self):
        if self.replies:
            place = self.chance.randrange(len(self.replies))
            handle, answer = self.replies[place]
            del self.replies[place]
            self.asked.pop(handle).receive(handle, answer)

    def lose_one(self):
        if self.replies:
            place = self.chance.randrange(len(self.replies))
            handle, _ = self.replies[place]
            del self.replies[place]
            self.broken.append(self.asked.pop(handle))

    def mend_one(self):
        if self.broken:
            member = self.broken.pop(self.chance.randrange(len(self.broken)))
            if member in self.members and member.phase is not Phase.OUT:
                member.connection_lost()

    def beat_one(self):
        if self.members:
            self.chance.choice(self.members).beat()

    def wait(self):
        self.now += self.chance.choice([10, 100, 1_000, 4_000])
        if self.former is not None:
            self.refuse_writes(self.former.tick(self.now))
        self.carry_out(self.coordinator.tick(self.now))

    def start_one(self):
        if len(self.members) < _MOST_MEMBERS:
            self.born += 1
            instance = self.chance.choice([None, None, None, "i", "j"])
            member = self.member(
                f"m{self.born}",
                session_ms=SESSION_MS,
                rebalance_ms=REBALANCE_MS,
                instance_id=instance,
                id_first=self.chance.random() < 0.5,
            )
            member.join()

    def leave_one(self):
        if self.members:
            member = self.chance.choice(self.members)
            self.members.remove(member)
            if member.phase is not Phase.OUT and member.member_id:
                member.leave()
            member.phase = Phase.OUT

    def kill_one(self):
        if self.members:
            member = self.chance.choice(self.members)
            self.members.remove(member)
            member.phase, member.waits_for = Phase.OUT, None

    def change_one(self):
        stable = [member for member in self.members if member.phase is Phase.MEMBER and member.waits_for is None]
        if stable:
            member = self.chance.choice(stable)
            subscription = f"{member.name}-{self.now}".encode()
            member.protocols = tuple(type(p)(p.name, subscription) for p in member.protocols)
            member.join()

    def fall(self):
        """Let the coordinator crash in its next turn, between two of its effects."""
        self.crash_after = self.chance.randrange(4)

    def calm_down(self):
        """Let the group settle without faults. Returns: a text for each broken promise."""
        self.crash_after = None
        self.end_former()
        for _ in range(_QUIET_MS // 5_000):
            while self.broken:
                self.mend_one()
            self.pass_time(5_000)
        living = [member for member in self.members if Phase.OUT is not member.phase]
        wrong = [f"{one.name} is {one.phase.value}" for one in living if one.phase is not Phase.MEMBER]
        if living and not wrong:
            if {member.generation for member in living} != {self.group.generation}:
                wrong.append(f"generations {sorted({member.generation for member in living})}")
            if sorted(p for member in living for p in member.partitions) != list(PARTITIONS):
                wrong.append(f"assigned {[member.partitions for member in living]}")
        return wrong


def run(seed):
    """Run one storm. Raises: AssertionError that names the seed."""
    storm = Storm(seed)
    try:
        for _ in range(_STEPS):
            storm.step()
        wrong = storm.calm_down()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
    assert not wrong, f"seed {seed}: {wrong}"


def main(first=0, count=1_000):
    failed = 0
    for seed in range(first, first + count):
        try:
            run(seed)
        except AssertionError as error:
            failed += 1
            print(error)
    print(f"{count} seeds, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
