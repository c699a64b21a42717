"""The rules that hold for any commands of operators in any order, and with any events in between.

After each command, the model checks:
- The command moved offsets only to where its plan said.
- It overwrote no commit that came after its plan.
- It gave a topic that was created again meanwhile no offset of the earlier one.
- A step of a migration moved no group past what it consumed, and undid no rewind, also if the step was killed or the
  rewind came in its middle.
- The same command given again changes nothing more.
- A command that only reads changes nothing.
- `migrate verify` exits with 0 only if a switch loses and repeats no message.
- The backup restores everything.
- describe, verify, the doctor, a member and Spark agree about every partition (tests/support/agreement.py).

To add a command, add to COMMANDS a function of the generator and the group that returns the command's words, without
--execute. The model reads from the command's own plan what it may write. Commands that only read go into LOOKING.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from dataclasses import dataclass

from legacy_consumer.errors import ActiveGroupError
from legacy_consumer.member.resets import RequestState
from legacy_consumer.operations.admin.deletion import delete_group
from legacy_consumer.operations.admin.errors import GroupHeldError
from tests.simulation.operators.files import file_to_import
from tests.simulation.operators.world import ASKED, GROUPS, PARTITIONS, KilledError
from tests.support.agreement import check_agreement
from zk_layout.errors import ConnectionLostError

LOOKING = (
    lambda rng, g: ["groups", "verify", g],
    lambda rng, g: ["groups", "describe", g, "--check"],
    lambda rng, g: ["groups", "describe", g],
    lambda rng, g: ["groups", "list", "--details"],
    lambda rng, g: ["doctor"],
    lambda rng, g: ["offsets", "export", g],
    lambda rng, g: ["migrate", "status"],
    lambda rng, g: ["migrate", "verify", g],
    lambda rng, g: ["groups", "prune", "--older-than", "1s"],
)


def _topic(rng):
    return rng.choice([[], [], ["--topic", "t"], ["--topic", "t:1"], ["--topic", "u:0"]])


def _reset(rng, g):
    target = rng.choice(
        [["--to-earliest"], ["--to-latest"], ["--to-offset", str(rng.randrange(100))], ["--shift-by", "-5"]]
    )
    live = rng.choice([[], [], ["--live", "--timeout", "0.1"]])
    return ["offsets", "reset", g, *target, *_topic(rng), *rng.choice([[], ["--clamp"]]), *live]


def _copy(rng, g):
    return ["offsets", "copy", g, "h" if g == "g" else "g", *_topic(rng)]


def _migrate(verb, *choices):
    return lambda rng, g: ["migrate", verb, g, *(choice for choice in choices if rng.random() < 0.3)]


ARC = (
    "experiment", "apply", "newer", "work", "work", "anew", "work", "stop", "apply", "rollback", "rewind", "rollback",
    "finish",
)  # fmt: skip
"""The acts of a migration, in order. The seed leaves out some, and draws other events between them."""

COMMANDS = (
    _reset,
    _copy,
    _migrate("apply", "--skip-blocked", "--rolling"),
    _migrate("apply", "--skip-blocked"),
    _migrate("rollback", "--skip-blocked"),
    _migrate("finish"),
    lambda rng, g: ["groups", "delete", g, *rng.choice([[], ["--topic", "t"]])],
)


class StoryEndsError(Exception):
    """The story's doomed command was killed and given again, so the story ends."""


@dataclass(frozen=True)
class Kill:
    """The command's process ends at this write: before ZooKeeper gets it, or after ZooKeeper carried it out."""

    write: int
    before: bool


@dataclass(frozen=True)
class Lost:
    """The connection breaks at this write: ZooKeeper does not get it, or the answer is lost."""

    write: int
    before: bool


def _group_of(words):
    """Return the group that a command would change."""
    if words[1] == "import":
        return "g"
    return words[3] if words[1] == "copy" else words[2]


def _typed(command):
    """Return the words of a command that the doctor advises, as this model writes them.

    None unless it is a reset without --live, or a deletion, of one of GROUPS: ZooKeeper may hold other groups.
    """
    words = shlex.split(command)
    *given, group = words[: words.index("--zookeeper")]
    if given[1:3] not in (["offsets", "reset"], ["groups", "delete"]) or "--live" in given or group not in GROUPS:
        return None
    return [*given[1:3], group, *(part for word in given[3:] for part in word.split("=", 1))]


class Operators:
    """The story of one seed. told: the events, to print with a failure."""

    def __init__(self, world, rng):
        self.world = world
        self.rng = rng
        self.told = []
        self.files = 0
        self.writes = 0
        self.commits = {}
        self.held = {}
        self.ready = set()
        self.is_applied = self.is_between = False
        self.made_anew = set()
        self.had_company = False
        self.commands = 0
        self.doom = None
        self.first_writes = 0
        self.writes_of = []
        self.phase = self.step_of = None
        self.rewound = set()
        self.arc = [act for act in ARC if rng.random() < 0.8]

    def step(self):
        for _ in range(self.rng.randrange(3)):
            self._happen()
        if self.arc and self.rng.random() < 0.6:
            self._go_on(self.arc.pop(0))
        elif self.rng.random() < 0.3:
            self._look()
        elif self.rng.random() < 0.2:
            self.follow_the_doctor()
        elif self.rng.random() < 0.2:
            self.prune()
        elif self.rng.random() < 0.25:
            self._command(["offsets", "import", *file_to_import(self.rng, self.world, self._run)])
        else:
            self._command(self.rng.choice(COMMANDS)(self.rng, self.rng.choice(GROUPS)))
        self._check_verify()
        if self.rng.random() < 0.3:
            check_agreement(self.world, self.rng.choice(GROUPS))

    def carry_out(self, words):
        """Carry out a command undisturbed, give it again, and check that all agree about every group.

        doom, (the number of a command, a Kill): that command is killed and given again, and then the story ends.
        """
        self.commands += 1
        number, kill = self.doom or (self.commands, "")
        done = self._command(words, kill if number == self.commands else "")
        # a deletion that was killed may leave nothing to delete for the second time
        assert done.code == 0 or (kill and words[1] == "delete"), done
        self.writes_of.append(self.first_writes)
        if number <= self.commands:
            self.agree()
        if kill and number == self.commands:
            raise StoryEndsError

    def check_sound(self, group):
        """Check that `migrate verify` exits with 0, and is right."""
        assert self._run(["migrate", "verify", group]).code == 0
        self._check_verify(group)

    def consume_newer(self, group):
        """Let newer consumers join, consume in each partition, commit and stop."""
        self.world.newer[group] = ("newer@host",)
        before = self.world.numbers()
        for tp in PARTITIONS:
            self._work(group, tp)
        self.world.newer[group] = ()
        assert self.world.numbers() != before, "they have committed"

    def agree(self):
        for group in GROUPS:
            check_agreement(self.world, group)
            self._check_verify(group)

    def follow_the_doctor(self, fate=None):
        """Give a command that one of the doctor's findings advises, if any; it may change only what its plan names."""
        findings = json.loads(self._run(["doctor", "--json"]).out)
        typed = [words for finding in findings for words in map(_typed, finding["commands"]) if words is not None]
        if typed:
            self._command(self.rng.choice(typed), fate)
        return bool(typed)

    def prune(self):
        """Prune groups, and check: they were listed, had no members, are gone, and their backups restore them.

        Returns: the pruned groups; groups with offsets that count are restored now.
        """
        world, before = self.world, self._counting()
        there = [group for group in GROUPS if world.store.exists(f"/consumers/{group}") is not None]
        world.let_time_pass()
        # --name: other groups may be in the same ZooKeeper
        words = ["groups", "prune", "--older-than", "1s", *(f"--name={group}" for group in GROUPS)]
        named = {one["group"] for one in json.loads(self._run([*words, "--json"]).out)}
        files = set(world.folder.iterdir())
        done = self._run([*words, "--execute", "--backup-dir", str(world.folder)])
        assert done.code == 0, done
        gone = {group for group in there if world.store.exists(f"/consumers/{group}") is None}
        assert gone <= named - world.members.keys()
        backups = set(world.folder.iterdir()) - files
        assert self._run([*words, "--execute", "--backup-dir", str(world.folder)]).code == 0
        for backup in backups:
            back = self._run(["offsets", "import", str(backup), "--no-check", "--no-backup", "--execute"])
            if back.code == 0:
                assert self._counting() == before, backup.read_text()
        return gone

    def _go_on(self, act):
        world, group, tp = self.world, "g", self.rng.choice(PARTITIONS)
        self.told.append(act)
        match act:
            case "apply" | "rollback" | "finish":
                world.member_goes(group)
                self._command(["migrate", act, group, *(["--skip-blocked"] if act == "apply" else [])])
            case "rewind":
                self._command(["offsets", "reset", group, "--to-earliest"])
            case "experiment" if tp in world.logs and not self._is_migrating(group):
                world.commit_in_kafka(group, tp, world.logs[tp][1] - 1, is_own=False)
            case "newer" if len(world.logs) == len(PARTITIONS):
                world.newer[group] = ("newer@host",)
            case "stop":
                world.newer[group] = ()
            case "work":
                for one in PARTITIONS:
                    self._work(group, one)
            case "anew":
                self._make_anew(tp.topic)
            case _:
                pass

    # events beside the commands

    def _happen(self):
        world, rng = self.world, self.rng
        group, tp = rng.choice(GROUPS), rng.choice(PARTITIONS)
        is_there = tp in world.logs
        begin, end = world.logs.get(tp, (0, 0))
        acts = [
            "join",
            "leave",
            "work",
            "work",
            "newer",
            "stop",
            "experiment",
            "anew",
            "drop",
            "cut",
            "forget",
            "ask",
            "rewind",
            "ghost",
        ]
        match rng.choice(acts):
            case "ask":
                world.ask_for_reset(group, rng.choice(ASKED))
            case "ghost":
                world.ghost_owns(group, tp)
            case "join":
                world.member_comes(group)
            case "leave":
                world.member_goes(group)
            case "work":
                self._work(group, tp)
            case "newer" if group not in world.members and len(world.logs) == len(PARTITIONS):
                world.newer[group] = ("newer@host",)
            case "stop":
                world.newer[group] = ()
            case "experiment" if is_there and not self._is_migrating(group):
                world.commit_in_kafka(group, tp, rng.randrange(begin, end + 1), is_own=False)
            case "anew":
                self._make_anew(tp.topic)
            case "drop" if is_there and not any(world.newer.values()):
                self._drop(tp.topic)
            case "cut" if is_there:
                world.truncate(tp, rng.randrange(100))
            case "forget" if world.forgets and not world.newer[group]:
                world.kafka[group].kept.clear()
                self._forget_rewinds("kafka", group)
            case "rewind" if is_there and not world.newer[group] and (world.position_in_kafka(group, tp) or 0) > begin:
                # with Kafka's own tool, which marks nothing
                world.commit_in_kafka(group, tp, rng.randrange(begin, world.position_in_kafka(group, tp)), is_own=False)
                if self._completed(group) == "applied":
                    self.rewound.add(("kafka", group, tp))
            case _:
                return
        self.told.append(f"{group} {tp}: something happened, consumed {world.consumed[group, tp]}")

    def _work(self, group, tp):
        """Let the group's members continue from its position, and commit."""
        world = self.world
        if tp not in world.logs or ("zookeeper", group, tp) in self.ready:
            return
        begin, end = world.logs[tp]
        if group in world.members:
            start = world.position_in_zookeeper(group, tp)
            commit = world.commit_in_zookeeper
        elif world.newer[group] and self._is_migrating(group):
            start = world.position_in_kafka(group, tp)
            commit = world.commit_in_kafka
        else:
            return
        offset = min(end, max(begin, start or 0) + self.rng.randrange(1, 10))
        commit(group, tp, offset)
        place = ("zookeeper" if group in world.members else "kafka", group, tp)
        self.rewound.discard(place)
        self.commits[place] = (offset, self.writes)
        if place in self.held:
            self.held[place] = offset

    def _phase(self, group):
        path = f"/consumers/{group}/migration"
        there = self.world.store.exists(path) is not None
        return json.loads(self.world.store.get_data(path).data)["phase"] if there else None

    def _completed(self, group):
        """Return the phase that the last completed step of a migration reached; None without one."""
        if self._phase(group) is None:
            return None
        history = json.loads(self.world.store.get_data(f"/consumers/{group}/migration").data)["history"]
        return next((name for name, _ in reversed(history) if name not in {"applying", "rolling back"}), None)

    def _is_migrating(self, group):
        return self._phase(group) not in {None, "rolled back"}

    # commands

    def _look(self):
        words = self.rng.choice(LOOKING)(self.rng, self.rng.choice(GROUPS))
        before = self.world.tree(), self.world.numbers()
        done = self._run(words)
        assert (self.world.tree(), self.world.numbers()) == before, words
        assert done.code in {0, 1}, done

    def _command(self, words, fate=None):
        """Give a command, and check all rules. Returns: the result of its first run that was not killed.

        fate: the event that disturbs it; "" for none, None to draw one.
        """
        world = self.world
        plan = self._plan(words)
        assert world.created == [], "looking creates no topic"
        before, offsets = world.numbers(), self._counting()
        self.phase = self._phase(words[2]) if words[0] == "migrate" else None
        self.step_of = words[2] if words[0] == "migrate" else None
        was_applied = words[0] == "migrate" and self._completed(words[2]) == "applied"
        self.commits, self.held, self.made_anew, self.had_company = {}, {}, set(), False
        self.ready, self.is_applied = set(), False
        there = set(world.members)
        positions = self._positions()
        is_drawn = fate is None
        if is_drawn:
            kill = Kill(self.rng.randrange(1, 6), self.rng.random() < 0.5)
            fates = ["", kill, "made anew", "dropped", "somebody works", "somebody works", "another operator"]
            if words[:2] == ["offsets", "reset"]:
                fates += [Lost(kill.write, kill.before), "deleted"]
            fate = self.rng.choice(fates)
        files = set(world.folder.iterdir())
        done = self._run_through(words, fate)
        self.first_writes = self.writes
        after = world.numbers()
        for place, number in after.items():
            allowed = {
                before[place],
                *((None,) if place[2].topic in self.made_anew or place[2] not in world.logs else ()),
                *plan.get(place, ()),
                *(c[0] for p, c in self.commits.items() if p == place),
            }
            assert number in allowed, f"{place}: {before[place]} became {number}, {words} names {plan.get(place)}"
            self._check_commits(words, place, number)
            self._check_made_anew(words, place)
            if words[0] == "migrate":
                self._check_step(place, before[place], number)
                moved = number is not None and positions[place] is not None and place not in self.commits
                if moved and place[2].topic not in self.made_anew:
                    assert number >= positions[place], f"{place}: moved back from {positions[place]} to {number}"
            elif place in self.held and place not in self.ready:
                assert number == self.held[place], f"{words} wrote {place} under a member"
            if place in self.ready and place in plan and done is not None and done.code == 0:
                assert number in plan[place], f"{words}: members followed, and {place} has {number}"
        if self.ready and done is not None and done.code == 0:
            assert self.is_applied, f"{words}: members were not told to follow"
        if fate == "deleted" and self.had_company:
            assert world.store.exists(f"/consumers/{words[2]}") is None, f"{words} made a deleted group again"
        if words[0] == "migrate":
            self._note_step(words[2], was_applied=was_applied)
        else:
            self._note_decision(before, after, positions)
        self.ready = set()
        if done is None:
            return self._command(words, None if is_drawn else "")
        # a member that left meanwhile has left partitions for a rolling migration, which then continues with them
        if self._was_alone() and there == set(world.members):
            self._again(words, done, after)
        backups = set(world.folder.iterdir()) - files
        if self._was_alone() and words[0] != "migrate" and len(backups) == 1 and done.code == 0:
            self._put_back(backups.pop(), words, offsets, plan)
        return done

    def _was_alone(self):
        return not self.commits and not self.made_anew and not self.had_company

    def _check_commits(self, words, place, number):
        """Check that the command did not overwrite a commit to ZooKeeper that came after its plan."""
        if place[0] == "zookeeper" and place in self.commits and place not in self.ready:
            assert number == self.commits[place][0], f"{words} wrote {number} over a commit of {self.commits[place][0]}"

    def _check_made_anew(self, words, place):
        """Check that the group begins a topic that was created again at its first message, unless it committed."""
        side, group, tp = place
        if tp.topic in self.made_anew and place not in self.commits:
            world = self.world
            position = (world.position_in_zookeeper if side == "zookeeper" else world.position_in_kafka)(group, tp)
            assert position in {None, 0}, f"{words} wrote {position} of the earlier topic as {place}"

    def _check_step(self, place, before, number):
        """Check that a migration's step skips no message that the group did not consume, and undoes no rewind."""
        _, group, tp = place
        if number is None or number == before or place in self.commits or tp.topic in self.made_anew:
            return
        if tp not in self.world.logs:
            return  # an offset of a deleted topic is marked as such, and never counts for the next topic of that name
        assert self.phase != "rolled back" or place[0] != "zookeeper", f"{place}: rolled back, and {number} written"
        is_where_the_log_begins = number == self.world.logs[tp][0]
        assert place not in self.rewound or is_where_the_log_begins, (
            f"{place} was rewound on purpose, and {number} written"
        )
        frontier = self.world.frontier(group, tp)
        assert number <= frontier, f"{place}: {number} skips messages, consumed is {frontier}"

    def _note_decision(self, before, after, positions):
        """Count as consumed what lies before an offset that an operator wrote on purpose."""
        for place, number in after.items():
            side, group, tp = place
            was_named = place not in self.commits or place in self.ready
            # an import of the same number may make an offset count that was of an earlier topic
            counts = self.world.position_in_zookeeper(group, tp) not in {None, positions[place]}
            if side == "zookeeper" and (number != before[place] or counts) and was_named:
                is_back = number is not None and number < (positions[place] or 0)
                is_open = self._is_migrating(group) and self._phase(group) != "finished"
                if is_back and (is_open or group == self.step_of):
                    self.rewound.add(place)
                if number is None:
                    # for a rollback, the old members never had an offset there
                    self.rewound.discard(place)
                self.world.consumed[group, tp] = max(number or 0, self.world.consumed[group, tp])

    def _note_step(self, group, *, was_applied):
        """Forget rewinds that the next step may undo: in Kafka unless an apply was complete before and after."""
        if not was_applied or self._completed(group) != "applied":
            self._forget_rewinds("kafka", group)
        for tp in PARTITIONS:
            in_zookeeper, in_kafka = (
                self.world.position_in_zookeeper(group, tp),
                self.world.position_in_kafka(group, tp),
            )
            if self._phase(group) == "finished" or (in_kafka or 0) <= (in_zookeeper or 0):
                self.rewound.discard(("zookeeper", group, tp))

    def _make_anew(self, topic):
        self.world.make_anew(topic)
        self.rewound = {place for place in self.rewound if place[2].topic != topic}

    def _drop(self, topic):
        """Delete a topic; it stays deleted until an event creates it again."""
        self.world.drop_topic(topic)
        self.rewound = {place for place in self.rewound if place[2].topic != topic}

    def _forget_rewinds(self, *place):
        self.rewound = {one for one in self.rewound if one[: len(place)] != place}

    def _plan(self, words):
        """Return {place: the numbers that a command's own plan names}."""
        world = self.world
        match words[:2]:
            case ["migrate", "apply" | "rollback"]:
                done = self._run([*words, "--json"])
                shown = json.loads(done.out or '{"partitions": []}')
                side = "kafka" if words[1] == "apply" else "zookeeper"
                return {
                    (side, words[2], tp): (row["offset"],)
                    for row in shown["partitions"]
                    for tp in PARTITIONS
                    if (row["topic"], row["partition"], row["action"]) == (*tp, "write")
                }
            case ["offsets", _]:
                done = self._run([*words, "--json"])
                rows = json.loads(done.out)["changes"] if done.out else []
                return {
                    ("zookeeper", row["group"], tp): (row["after"],)
                    for row in rows
                    for tp in PARTITIONS
                    if (row["topic"], row["partition"]) == tuple(tp)
                }
            case ["groups", "delete"]:
                return {
                    ("zookeeper", words[2], tp): (None,)
                    for tp in PARTITIONS
                    if "--topic" not in words or tp.topic == words[words.index("--topic") + 1]
                }
        assert world
        return {}

    def _run_through(self, words, fate):
        """Run a command with --execute and a backup, disturbed by its fate. Returns: its result, None if killed."""
        world = self.world
        self.files += 1
        if words[0] == "migrate":
            backup = ["--backup", str(world.folder / f"{self.files}.json")]
        else:
            backup = ["--backup-dir", str(world.folder)]
        self.writes = 0

        def before():
            self.writes += 1
            if fate == Kill(self.writes, before=True):
                raise KilledError
            if fate == Lost(self.writes, before=True):
                self.had_company = True
                raise ConnectionLostError("lost")
            if fate == "dropped" and not self.had_company and self.rng.random() < 0.5:
                topic = self.rng.choice(PARTITIONS).topic
                if any(tp.topic == topic for tp in world.logs) and not any(world.newer.values()):
                    self.had_company = True
                    self._drop(topic)
            if fate == "made anew" and not self.made_anew and self.rng.random() < 0.5:
                self.made_anew.add(self.rng.choice(PARTITIONS).topic)
                self._make_anew(*self.made_anew)
            if fate == "another operator" and not self.had_company and self.rng.random() < 0.5:
                self._operator_between(_group_of(words))
            if fate == "somebody works" and self.rng.random() < 0.8:
                group = _group_of(words)
                for act in self.rng.choice(("c", "c", "cw", "cwg", "w", "g")):
                    self._meanwhile(act, group)

        def after():
            if "--live" in words:
                self._answer(_group_of(words))
            if fate == Kill(self.writes, before=False):
                raise KilledError
            if fate == Lost(self.writes, before=False):
                self.had_company = True
                raise ConnectionLostError("lost")

        def before_request():
            if fate == "deleted" and not self.had_company and self.rng.random() < 0.05:
                self._delete_between(words[2])

        world.before_write, world.after_write, world.before_request = before, after, before_request
        try:
            return self._run([*words, "--execute", *backup])
        except KilledError:
            self.told.append("killed")
            return None
        finally:
            world.before_write = world.after_write = world.before_request = lambda: None
            world.forget_requests()

    def _answer(self, group):
        """Let the group's member follow a reset: it may commit first, and then holds its partitions."""
        if ("zookeeper", group, PARTITIONS[0]) not in self.ready and self.rng.random() < 0.5:
            self._work(group, self.rng.choice(PARTITIONS))
        self.ready |= {("zookeeper", group, tp) for tp in self.world.answer_request(group)}
        self.is_applied |= self.world.state_of_request(group) is RequestState.APPLIED

    def _delete_between(self, group):
        """Let another operator delete the group of this command; the changes count like commits after the plan."""
        before = self.world.numbers()
        with contextlib.suppress(ActiveGroupError, GroupHeldError):
            self.had_company = delete_group(self.world.other_operator, group)
        after = self.world.numbers()
        self.commits |= {place: (n, self.writes) for place, n in after.items() if n != before[place]}

    def _operator_between(self, group):
        """Give another operator's whole command between two writes of this one; its changes count like commits."""
        world = self.world
        mine = self.phase, self.step_of, self.commits, self.held, self.made_anew, self.writes, self.ready
        self.told.append("another operator, meanwhile:")
        hooks, before = (world.before_write, world.after_write), world.numbers()
        world.before_write = world.after_write = lambda: None
        self.is_between = True
        self._command(self.rng.choice(COMMANDS)(self.rng, self.rng.choice((group, *GROUPS))), "")
        self.is_between = False
        self.phase, self.step_of, self.commits, self.held, self.made_anew, self.writes, self.ready = mine
        self.had_company = True
        world.before_write, world.after_write = hooks
        self.commits |= {place: (n, self.writes) for place, n in world.numbers().items() if n != before[place]}

    def _meanwhile(self, act, group):
        """Let a member join, work or leave during a command. While it is there, only it may write its offsets."""
        match act:
            case "c":
                self.world.member_comes(group)
            case "w":
                self._work(group, self.rng.choice(PARTITIONS))
            case "g":
                # the command may have stopped at a znode of this member, which is gone when it is given again
                self.had_company |= group in self.world.members
                self.world.member_goes(group)
                self.ready = {place for place in self.ready if place[1] != group}
        places = {place for place in self.world.numbers() if place[:2] == ("zookeeper", group)}
        self.held = {place: number for place, number in self.held.items() if place not in places}
        if group in self.world.members:
            self.held |= {place: number for place, number in self.world.numbers().items() if place in places}

    def _positions(self):
        """Return {place: the group's position}."""
        world = self.world
        read = {"zookeeper": world.position_in_zookeeper, "kafka": world.position_in_kafka}
        return {place: read[place[0]](*place[1:]) for place in world.numbers()}

    def _again(self, words, done, after):
        """Give the same command again, and check that it changes nothing more."""
        if "--shift-by" in words or done.code not in {0, 1}:
            return
        again = self._run_through(words, "")
        assert again.code in {0, 1, 2}, again
        # a member that a reset asks to hold its partitions commits before it does
        commits = {place: number for place, (number, _) in self.commits.items() if place not in self.ready}
        assert self.world.numbers() == after | commits, f"{words} given again: {again}"

    def _counting(self):
        """Return {(group, partition): the group's position in ZooKeeper}; 0 for an offset of an earlier topic."""
        world = self.world
        found = {}
        for group in GROUPS:
            for tp in PARTITIONS:
                counts, stands = world.position_in_zookeeper(group, tp), world.in_zookeeper(group, tp)
                found[group, tp] = 0 if counts is None and stands is not None else counts
        return found

    def _put_back(self, backup, words, before, plan):
        """Check that a command's backup restores all that it changed, and leaves later commits elsewhere alone.

        Not inside another command, which does not see an offset that goes and comes back right before its write
        (offset_fence).
        """
        if self.is_between or self.rng.random() < 0.5 or any(group in self.world.members for group in GROUPS):
            return
        for group in {place[1] for place in plan}:
            for tp in PARTITIONS:
                if ("zookeeper", group, tp) not in plan:
                    self.world.commit_in_zookeeper(group, tp, 77)
                    before[group, tp] = 77
        done = self._run(["offsets", "import", str(backup), "--no-check", "--no-backup", "--execute"])
        if done.code == 0:
            assert self._counting() == before, f"{words}, and its backup {backup.read_text()}"
        else:
            assert "holds no offsets" in done.err, done

    def _check_verify(self, group=None):
        """Check that a switch that `migrate verify` calls sound loses nothing and repeats nothing."""
        world, group = self.world, group or self.rng.choice(GROUPS)
        done = self._run(["migrate", "verify", group, "--json"])
        if done.code != 0:
            return
        for tp in world.logs:
            in_zookeeper, in_kafka = world.position_in_zookeeper(group, tp), world.position_in_kafka(group, tp)
            if in_zookeeper is not None:
                assert in_kafka is not None, f"{group} {tp}: sound without an offset in Kafka"
            if in_zookeeper is not None and ("kafka", group, tp) not in self.rewound:
                assert in_kafka >= in_zookeeper, f"{group} {tp}: sound and {in_zookeeper - in_kafka} behind"
            if in_kafka is not None and group not in world.members:
                frontier = world.frontier(group, tp)
                assert in_kafka <= frontier, f"{group} {tp}: sound, Kafka has {in_kafka}, consumed is {frontier}"
                is_rewound = ("zookeeper", group, tp) in self.rewound and in_zookeeper is not None
                assert not is_rewound or in_kafka <= max(in_zookeeper, world.logs[tp][0]), (
                    f"{group} {tp}: sound, rewound to {in_zookeeper} in ZooKeeper, and Kafka has {in_kafka}"
                )

    def _run(self, words):
        done = self.world.run(*words)
        self.told.append(f"{' '.join(words)} -> {done.code} {done.err.strip()[-300:]}")
        assert done.code != 70, done
        return done
