"""The checker finds every kind of violation in a history, and nothing else."""

from xml.etree import ElementTree as ET

import pytest

from legacy_consumer.member.resets import request_path
from rebalance.assignors.seam import Cluster, MemberAssignment, Subscription
from tests.chaos.checker import Rules, check
from tests.chaos.history import Event, HistoryFile, Tail, load_history, runs_of
from tests.chaos.producing import number_of, value_of
from tests.chaos.stranger import clear_up
from tests.chaos.telling import Telling
from tests.chaos.timeline import draw
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.paths import ConsumerIdPath, ConsumerIdsPath

RULES = Rules(audit_s=1.0, session_timeout_s=3.0, settle_s=20.0)


class Told:
    """Builds a history of one partition, 0, with a short method for each event. Times are seconds."""

    def __init__(self):
        self.events = []

    def note(self, at, who, what, **details):
        self.events.append(Event(at, who, what, details))
        return self

    def member(self, name, kind="python"):
        return self.note(0.0, "runner", "member", name=name, kind=kind, id=f"g_{name}")

    def acked(self, first, last, at):
        for offset in range(first, last + 1):
            self.note(at, "producer", "acked", partition=0, offset=offset, seq=offset)
        return self

    def claims(self, at, who, offset, version):
        self.note(at - 0.01, who, "read", offsets={"0": [offset, version]})
        return self.note(at, who, "assigned", partitions=[0])

    def takes(self, at, who, first, last, seq=True, asked=None, looked=None):
        number = first if seq else None
        told = {"asked": asked or at, "looked": looked or at}
        return self.note(at, who, "delivered", partition=0, first=first, last=last, seq=number, **told)

    def commits(self, at, who, offset, version, began=None, **other):
        outcome = other or {"committed": {"0": [offset, version]}}
        return self.note(at, who, "commit", began=began or at, session=1, offsets={"0": [offset, version]}, **outcome)

    def seeks(self, at, who, before, offset, began=None):
        return self.note(at, who, "sought", partition=0, before=before, offset=offset, began=began or at - 0.01)

    def resets(self, began, at, before, offset, *, sure=True):
        """Add the event of an `offsets reset --live`."""
        return self.note(at, "runner", "reset", partition=0, before=before, offset=offset, began=began, sure=sure)

    def gives_up(self, at, who, how="released"):
        return self.note(at, who, "revoked", partitions=[0], how=how)

    def fault(self, began, ended, name="a fault", number=1):
        self.note(began, "runner", "fault", fault=name, target="x", phase="begin", number=number)
        return self.note(ended, "runner", "fault", fault=name, target="x", phase="end", number=number)

    def owner(self, at, owner):
        return self.note(at, "observer", "owner", partition=0, owner=owner and f"g_{owner}-0", session=1)

    def final(self, at, offset, owners=(), ids=()):
        return self.note(at, "runner", "final", owners=dict(owners), ids=list(ids), offsets={"0": offset})

    def judged(self):
        return check(sorted(self.events, key=lambda event: event.at), RULES)


def first_half():
    """Return a history in which p1 takes 0 to 4 of ten messages, and commits 5 in version 0."""
    told = Told().member("p1").member("p2").acked(0, 9, 1.0)
    return told.claims(1.5, "p1", None, None).takes(2.0, "p1", 0, 4).commits(2.5, "p1", 5, 0)


def second_half(told, start=5, version=0):
    """Let p2 take the rest."""
    told.claims(5.0, "p2", start, version).takes(5.5, "p2", start, 9).commits(6.0, "p2", 10, version + 1)
    return told.gives_up(7.0, "p2").final(8.0, 10)


def names_of(figures):
    return sorted({violation.partition(":")[0] for violation in figures["violations"]})


def test_sound_history_has_no_violations():
    figures = second_half(first_half().gives_up(3.0, "p1")).judged()
    assert figures["violations"] == []
    assert (figures["acknowledged"], figures["delivered"], figures["lost"], figures["duplicates"]) == (10, 10, 0, 0)


def test_message_that_nobody_got_is_lost():
    told = second_half(first_half().gives_up(3.0, "p1")).acked(10, 10, 5.9)
    assert names_of(told.judged()) == ["lost"]
    assert told.judged()["lost"] == 1


@pytest.mark.parametrize(("before", "lost"), [(5, 0), (6, 1)])
def test_operator_may_skip_exactly_what_lies_between_the_old_and_the_new_offset(before, lost):
    told = first_half().gives_up(3.0, "p1")
    told.note(4.0, "runner", "operator", partition=0, offset=8, version=1, before=before)
    figures = second_half(told, start=8, version=1).judged()
    assert figures["lost"] == lost
    assert figures["skipped_by_operator"] == 3 - lost
    assert names_of(figures) == ["lost"] * lost


def test_gap_inside_a_life_breaks_the_order():
    told = first_half().gives_up(3.0, "p1").claims(5.0, "p2", 5, 0)
    told.takes(5.5, "p2", 5, 6).takes(5.6, "p2", 8, 9).commits(6.0, "p2", 10, 1).gives_up(7.0, "p2").final(8.0, 10)
    assert names_of(told.judged()) == ["lost", "order"]


def test_life_that_begins_elsewhere_than_committed_breaks_the_order():
    told = first_half().gives_up(3.0, "p1").claims(5.0, "p2", 5, 0)
    told.takes(5.5, "p2", 3, 9).commits(6.0, "p2", 10, 1).gives_up(7.0, "p2").final(8.0, 10)
    assert names_of(told.judged()) == ["again", "order"]


def test_jump_to_an_offset_that_somebody_else_wrote_is_in_order():
    told = first_half()
    told.note(2.6, "runner", "operator", partition=0, offset=2, version=1, before=5)
    told.commits(2.7, "p1", 5, 0, foreign={"0": [2, 1]}).takes(2.8, "p1", 2, 9).commits(2.9, "p1", 10, 2)
    figures = told.gives_up(3.0, "p1").final(4.0, 10).judged()
    assert figures["violations"] == []
    assert figures["duplicates_by_cause"] == {"operator": 3}
    assert figures["backwards"]["by_operator"] == 1


def test_what_was_handed_out_before_a_member_learnt_of_an_operators_offset_may_come_again():
    told = first_half().note(2.6, "runner", "operator", partition=0, offset=2, version=1, before=5)
    told.takes(2.7, "p1", 5, 6).commits(2.8, "p1", 7, 0, foreign={"0": [2, 1]}).gives_up(3.0, "p1")
    figures = second_half(told, start=2, version=1).judged()
    assert figures["violations"] == []
    assert figures["duplicates_by_cause"] == {"operator": 5}


@pytest.mark.parametrize("is_followed", [True, False])
def test_jump_to_an_offset_that_a_member_followed_is_in_order(is_followed):
    told = first_half()
    told.note(2.6, "runner", "operator", partition=0, offset=2, version=1, before=5)
    if is_followed:
        told.note(2.7, "p1", "followed", offsets={"0": [2, 1]})
    told.takes(2.8, "p1", 2, 9).commits(2.9, "p1", 10, 2)
    assert names_of(told.gives_up(3.0, "p1").final(4.0, 10).judged()) == ([] if is_followed else ["order"])


def test_what_a_user_sought_comes_again_in_order_and_its_commit_goes_back():
    told = first_half().seeks(2.6, "p1", 5, 2).takes(2.7, "p1", 2, 3).commits(2.8, "p1", 4, 1).takes(2.9, "p1", 4, 9)
    figures = told.commits(3.0, "p1", 10, 2).gives_up(3.1, "p1").final(4.0, 10).judged()
    assert figures["violations"] == []
    assert figures["duplicates_by_cause"] == {"seek": 3}
    assert figures["backwards"]["by_seek"] == 1
    assert figures["moves"] == {"user": 1}


def test_what_the_next_member_hands_out_again_of_a_seek_that_was_not_over_is_the_seeks():
    told = first_half().seeks(2.6, "p1", 5, 2).takes(2.7, "p1", 2, 2).commits(2.8, "p1", 3, 1).gives_up(3.0, "p1")
    figures = second_half(told, start=3, version=1).judged()
    assert figures["violations"] == []
    assert figures["duplicates_by_cause"] == {"seek": 3}


def test_message_handed_out_after_a_seek_that_is_not_the_one_sought_is_found():
    told = first_half().seeks(2.6, "p1", 5, 2).takes(2.7, "p1", 5, 9).commits(2.8, "p1", 10, 1)
    assert names_of(told.gives_up(3.0, "p1").final(4.0, 10).judged()) == ["not moved"]


@pytest.mark.parametrize(("asked", "names"), [(2.55, []), (2.65, ["not moved"])])
def test_message_that_was_asked_for_before_a_seek_returned_may_be_another_one(asked, names):
    told = first_half().seeks(2.6, "p1", 5, 2, began=2.58).takes(2.7, "p1", 5, 5, asked=asked)
    told.takes(2.8, "p1", 2 if names == [] else 6, 9).commits(2.9, "p1", 10, 1)
    assert names_of(told.gives_up(3.0, "p1").final(4.0, 10).judged()) == names


def test_message_that_was_asked_for_before_a_seek_returned_may_be_the_one_sought():
    told = first_half().seeks(2.6, "p1", 5, 2, began=2.58).takes(2.7, "p1", 2, 3, asked=2.55).takes(2.8, "p1", 4, 9)
    assert told.commits(2.9, "p1", 10, 1).gives_up(3.0, "p1").final(4.0, 10).judged()["violations"] == []


@pytest.mark.parametrize("is_over", [True, False], ids=["by the one that sought", "by the next one"])
def test_what_another_member_handed_out_may_come_again_after_a_seek(is_over):
    told = first_half().gives_up(3.0, "p1").claims(5.0, "p2", 5, 0).seeks(5.1, "p2", 5, 2)
    if is_over:
        told.takes(5.2, "p2", 2, 9).commits(5.3, "p2", 10, 1).gives_up(6.0, "p2")
    else:
        told.commits(5.3, "p2", 2, 1).gives_up(6.0, "p2").member("p3").claims(6.5, "p3", 2, 1)
        told.takes(6.6, "p3", 2, 9).commits(6.7, "p3", 10, 2).gives_up(7.0, "p3")
    figures = told.final(8.0, 10).judged()
    assert figures["violations"] == []
    assert figures["duplicates_by_cause"] == {"seek": 3}


def test_a_later_seek_excuses_nothing_that_was_before_it():
    told = Told().member("p1").member("p2").acked(0, 9, 1.0).claims(1.5, "p1", None, None).takes(2.0, "p1", 0, 4)
    told.commits(2.5, "p1", 4, 0).gives_up(3.0, "p1").claims(5.0, "p2", 4, 0).takes(5.5, "p2", 4, 9)
    told.commits(5.6, "p2", 3, 1).seeks(5.7, "p2", 10, 3).takes(5.8, "p2", 3, 9).commits(5.9, "p2", 10, 2)
    assert names_of(told.gives_up(6.0, "p2").final(8.0, 10).judged()) == ["again", "backwards"]


def test_second_jump_after_one_seek_breaks_the_order():
    told = first_half().seeks(2.6, "p1", 5, 2).takes(2.7, "p1", 2, 6).takes(2.8, "p1", 2, 9).commits(2.9, "p1", 10, 1)
    assert names_of(told.gives_up(3.0, "p1").final(4.0, 10).judged()) == ["order"]


def test_messages_that_were_handed_out_after_a_seek_may_not_come_again_for_its_sake():
    told = first_half().seeks(2.6, "p1", 5, 2).takes(2.7, "p1", 2, 4).commits(2.8, "p1", 4, 1).gives_up(3.0, "p1")
    figures = second_half(told, start=4, version=1).judged()
    assert names_of(figures) == ["again"]


@pytest.mark.parametrize(
    ("who", "offset"), [("p1", 1), ("p2", 3)], ids=["further back than was sought", "by another member"]
)
def test_commit_that_goes_back_otherwise_than_was_sought_is_found(who, offset):
    told = first_half().seeks(2.6, "p1", 5, 2).takes(2.7, "p1", 2, 4)
    if who == "p2":
        told.commits(2.8, "p1", 5, 1).gives_up(3.0, "p1").claims(5.0, "p2", 5, 1).takes(5.1, "p2", 5, 9)
        told.commits(5.2, "p2", offset, 2).commits(5.3, "p2", 10, 3).gives_up(6.0, "p2")
    else:
        told.commits(2.8, "p1", offset, 1).takes(2.9, "p1", 5, 9).commits(3.0, "p1", 10, 2).gives_up(3.1, "p1")
    assert names_of(told.final(8.0, 10).judged()) == ["backwards"]


@pytest.mark.parametrize(
    ("asked", "at", "names"),
    [
        pytest.param(2.65, 2.7, ["paused"], id="during the pause"),
        pytest.param(2.55, 2.7, [], id="asked for before it"),
        pytest.param(2.95, 3.05, [], id="after it"),
    ],
)
def test_message_of_a_paused_partition_is_found(asked, at, names):
    told = first_half().note(2.6, "p1", "paused", partition=0, began=2.59).note(3.0, "p1", "resumed", partition=0)
    figures = (
        told.takes(at, "p1", 5, 9, asked=asked).commits(3.2, "p1", 10, 1).gives_up(3.3, "p1").final(4, 10).judged()
    )
    assert names_of(figures) == names
    assert figures["pauses"] == 1


def test_pause_ends_with_the_ownership_of_its_partition():
    told = first_half().note(2.6, "p1", "paused", partition=0, began=2.59).gives_up(2.7, "p1")
    told.claims(2.8, "p1", 5, 0).takes(2.9, "p1", 5, 9).commits(3.0, "p1", 10, 1).gives_up(3.1, "p1").final(4.0, 10)
    assert told.judged()["violations"] == []


def followed_reset(offset, *, sure=True, again=True):
    """Judge a history in which an operator resets p1 from 5; p1 follows if `again`, and takes the rest."""
    told = first_half().resets(2.55, 3.0, 5, offset, sure=sure)
    start = offset if again else 5
    if again:
        told.note(2.6, "observer", "offset", partition=0, offset=offset, version=1)
        told.note(2.7, "p1", "followed", offsets={"0": [offset, 1]})
    told.takes(2.8, "p1", start, 9).commits(2.9, "p1", 10, 1 + again)
    return told.gives_up(3.1, "p1").final(4.0, 10).judged()


def test_what_the_command_moves_back_comes_again():
    figures = followed_reset(2)
    assert figures["violations"] == []
    assert figures["duplicates_by_cause"] == {"operator": 3}
    assert figures["backwards"]["by_operator"] == 1
    assert figures["moves"] == {"operator": 1}


def test_what_the_command_moves_forward_is_skipped():
    figures = followed_reset(8)
    assert (figures["violations"], figures["skipped_by_operator"]) == ([], 3)


@pytest.mark.parametrize(("sure", "names"), [(True, ["not moved"]), (False, [])])
def test_reset_that_nobody_follows_is_found_if_the_command_said_that_it_was_done(sure, names):
    assert names_of(followed_reset(2, sure=sure, again=False)) == names


def test_commit_over_a_reset_that_was_followed_is_found():
    told = first_half().resets(2.55, 2.7, 5, 8).note(2.6, "observer", "offset", partition=0, offset=8, version=1)
    told.note(2.65, "p1", "followed", offsets={"0": [8, 1]}).takes(2.8, "p1", 8, 9).commits(2.9, "p1", 6, 2)
    told.commits(3.0, "p1", 10, 3)
    assert names_of(told.gives_up(3.1, "p1").final(4.0, 10).judged()) == ["backwards"]


@pytest.mark.parametrize(
    ("code", "said", "names"),
    [
        (0, "", []),
        (1, "Error: no quorum", []),
        (1, "Traceback (most recent call last)", ["broken"]),
        (2, "Usage:", ["broken"]),
        (None, "it did not end", ["broken"]),
    ],
)
def test_command_that_ends_otherwise_than_it_says_is_found(code, said, names):
    told = second_half(first_half().gives_up(3.0, "p1"))
    told.note(6.5, "runner", "command", command="groups describe", began=6.0, code=code, said=said)
    figures = told.judged()
    assert names_of(figures) == names
    assert figures["commands"] == {f"groups describe: {code}": 1}


@pytest.mark.parametrize(
    ("call", "on", "start", "names"),
    [
        pytest.param("shutdown", "main", 4, [], id="in hand"),
        pytest.param("shutdown", "main", 3, ["again"], id="the one before"),
        pytest.param("shutdown", "thread", 4, ["again"], id="called on another thread"),
        pytest.param("end_streams", "main", 4, ["again"], id="the loop ended by itself"),
    ],
)
def test_only_what_was_in_hand_as_the_user_called_shutdown_may_come_again(call, on, start, names):
    told = Told().member("p1").member("p2").acked(0, 9, 1.0).claims(1.5, "p1", None, None)
    told.takes(2.0, "p1", 0, 3).takes(2.1, "p1", 4, 4).note(2.2, "p1", "told to end", call=call, on=on)
    figures = second_half(told.commits(2.5, "p1", start, 0).gives_up(3.0, "p1"), start=start).judged()
    assert names_of(figures) == names
    assert figures["told_to_end"] == 1


@pytest.mark.parametrize(("again", "names"), [(5, []), (4, ["order"]), (6, ["lost", "order"])])
def test_interrupts_and_deaths_of_threads_excuse_nothing(again, names):
    told = first_half().note(2.6, "p1", "interrupted", error="KeyboardInterrupt", where="").note(2.7, "p1", "died")
    figures = told.takes(2.8, "p1", again, 9).commits(2.9, "p1", 10, 1).gives_up(3.0, "p1").final(4.0, 10).judged()
    assert names_of(figures) == names
    assert (figures["interrupts"], figures["threads_died"]) == (1, 1)


def test_messages_of_a_partition_that_was_never_assigned_break_the_order():
    told = second_half(first_half().gives_up(3.0, "p1")).member("p3").takes(6.5, "p3", 9, 9)
    assert names_of(told.judged()) == ["order"]


def test_message_handed_out_again_after_an_orderly_hand_over_is_found():
    told = Told().member("p1").member("p2").acked(0, 9, 1.0).claims(1.5, "p1", None, None)
    told.takes(2.0, "p1", 0, 4).commits(2.5, "p1", 3, 0).gives_up(3.0, "p1")
    figures = second_half(told, start=3).judged()
    assert names_of(figures) == ["again"]
    assert figures["duplicates_by_cause"] == {"again": 2}


@pytest.mark.parametrize(
    ("forced", "cause"),
    [
        (lambda told: told.note(3.0, "runner", "killed", name="p1"), "killed"),
        (
            lambda told: told.note(3.0, "p1", "session", kind="expired", session=0).gives_up(3.1, "p1", "dropped"),
            "session lost",
        ),
        (lambda told: told.gives_up(3.0, "p1", "dropped"), "stolen"),
        (
            lambda told: told.note(2.9, "runner", "frozen", name="p1").note(5.7, "runner", "thawed", name="p1"),
            "frozen",
        ),
    ],
)
def test_uncommitted_messages_may_come_again_after_a_forced_hand_over(forced, cause):
    told = Told().member("p1").member("p2").acked(0, 9, 1.0).claims(1.5, "p1", None, None)
    told.takes(2.0, "p1", 0, 4).commits(2.5, "p1", 3, 0)
    forced(told)
    figures = second_half(told, start=3).judged()
    assert figures["violations"] == []
    assert figures["duplicates_by_cause"] == {cause: 2}


def test_uncommitted_messages_may_come_again_of_a_member_that_left_after_its_session_had_ended():
    told = Told().member("p1").member("p2").acked(0, 9, 1.0).claims(1.5, "p1", None, None)
    told.takes(2.0, "p1", 0, 4).commits(2.5, "p1", 3, 0)
    # a member that is cut off from ZooKeeper gives its partition up after the other one has claimed it
    figures = second_half(told, start=3).gives_up(5.2, "p1").judged()
    assert figures["violations"] == []
    assert figures["duplicates_by_cause"] == {"session lost": 2}


@pytest.mark.parametrize(("robbed_at", "names"), [(3.0, []), (1.0, ["again"]), (4.8, ["again"])])
def test_uncommitted_messages_may_come_again_of_a_member_that_a_stranger_robbed_before_it_released(robbed_at, names):
    told = Told().member("p1").member("p2").acked(0, 9, 1.0).claims(1.5, "p1", None, None)
    told.takes(2.0, "p1", 0, 4).commits(2.5, "p1", 3, 0)
    told.note(robbed_at, "runner", "robbed", partition=0, began=robbed_at - 0.1)
    told.commits(4.5, "p1", 5, 1, unowned=[0]).gives_up(4.6, "p1")
    assert names_of(second_half(told, start=3).judged()) == names


def test_committed_messages_may_not_come_again_after_a_forced_hand_over():
    told = first_half().note(3.0, "runner", "killed", name="p1")
    told.claims(5.0, "p2", 5, 0).takes(5.5, "p2", 4, 9).commits(6.0, "p2", 10, 1).gives_up(7.0, "p2").final(8.0, 10)
    assert names_of(told.judged()) == ["order"]


def test_two_members_that_hand_out_one_partition_are_found():
    told = first_half().takes(5.2, "p1", 5, 5)
    told.note(5.3, "p1", "session", kind="expired", session=0).gives_up(5.4, "p1", "dropped")
    figures = second_half(told).judged()
    assert names_of(figures) == ["two owners"]
    assert figures["delivered_without_owning"]["two_owners"] == 1


@pytest.mark.parametrize("how", ["dropped", "released"])
@pytest.mark.parametrize(
    ("jvm", "late_s", "names"), [(True, 0.4, []), (True, 12.0, ["two owners"]), (False, 0.4, ["two owners"])]
)
def test_robbed_member_is_excused_until_its_audit_if_there_are_members_of_the_jvm(jvm, late_s, names, how):
    told = Told().member("p1").member("p2").acked(0, 9, 1.0)
    if jvm:
        told.member("j1", "jvm")
    told.claims(1.5, "p1", None, None).takes(2.0, "p1", 0, 4).commits(2.5, "p1", 5, 0)
    told.claims(5.0, "p2", 5, 0).takes(5.0 + late_s, "p1", 5, 5).gives_up(5.1 + late_s, "p1", how)
    told.takes(20.0, "p2", 5, 9).commits(21.0, "p2", 10, 1).gives_up(22.0, "p2").final(23.0, 10)
    assert names_of(told.judged()) == names


@pytest.mark.parametrize(("robbed_at", "names"), [(4.9, []), (5.15, ["two owners"]), (1.0, ["two owners"])])
def test_member_that_a_stranger_robbed_is_excused_though_its_session_ended_later(robbed_at, names):
    told = first_half().note(robbed_at, "runner", "robbed", partition=0, began=robbed_at - 0.1)
    told.takes(5.2, "p1", 5, 5).note(5.3, "p1", "session", kind="expired", session=0).gives_up(5.4, "p1", "dropped")
    assert names_of(second_half(told).judged()) == names


def test_member_that_hands_out_what_it_has_released_is_no_robbed_one():
    told = first_half().member("j1", "jvm").gives_up(4.0, "p1")
    assert "two owners" in names_of(second_half(told.takes(5.2, "p1", 5, 5)).judged())


def test_commit_of_a_robbed_member_is_counted_and_excused():
    told = first_half().member("j1", "jvm").takes(4.0, "p1", 5, 5).claims(5.0, "p2", 5, 0)
    told.commits(5.2, "p1", 6, 1, began=5.1).gives_up(5.3, "p1", "released").takes(5.5, "p2", 5, 9)
    figures = told.commits(6.0, "p2", 10, 2).gives_up(7.0, "p2").final(8.0, 10).judged()
    assert figures["violations"] == []
    assert figures["zombie_commits"] == {"accepted": 0, "by a robbed member": 1}


def test_thawed_member_that_goes_on_handing_out_is_found():
    told = first_half().note(3.0, "runner", "frozen", name="p1").note(5.6, "runner", "thawed", name="p1")
    told.takes(5.65, "p1", 5, 7).note(5.7, "p1", "session", kind="expired", session=0).gives_up(5.8, "p1", "dropped")
    figures = second_half(told).judged()
    assert names_of(figures) == ["after thaw"]
    assert figures["delivered_without_owning"]["after_thaw"] == 3
    assert figures["latest_delivery_after_thaw_ms"] == 50.0


@pytest.mark.parametrize(
    ("asked", "looked", "names"),
    [
        pytest.param(2.99, 2.995, [], id="leased before the freeze"),
        pytest.param(3.001, 3.002, [], id="leased between the note of the freeze and the freeze"),
        pytest.param(2.0, 2.995, [], id="the call had to wait for a message"),
        pytest.param(2.99, 2.98, ["after thaw"], id="not looked at in this call"),
        pytest.param(2.99, 5.64, ["after thaw"], id="looked at after the thaw, and found to hold"),
        pytest.param(5.61, 5.62, ["after thaw"], id="asked for after the thaw"),
    ],
)
def test_only_what_was_leased_when_the_freeze_came_is_excused(asked, looked, names):
    told = first_half().note(3.0, "runner", "frozen", name="p1").note(5.6, "runner", "thawed", name="p1")
    told.takes(5.65, "p1", 5, 5, asked=asked, looked=looked)
    told.note(5.7, "p1", "session", kind="expired", session=0).gives_up(5.8, "p1", "dropped")
    figures = second_half(told).judged()
    assert names_of(figures) == names
    assert figures["delivered_without_owning"]["in_the_act"] == (not names)


def test_a_second_call_in_the_moment_of_the_freeze_is_found():
    told = first_half().note(3.0, "runner", "frozen", name="p1").note(5.6, "runner", "thawed", name="p1")
    told.takes(5.65, "p1", 5, 5, asked=2.99, looked=2.99).takes(5.66, "p1", 6, 6, asked=2.995, looked=2.996)
    told.note(5.7, "p1", "session", kind="expired", session=0).gives_up(5.8, "p1", "dropped")
    assert names_of(second_half(told).judged()) == ["after thaw"]


def test_thawed_member_may_hand_out_what_it_claims_anew():
    told = first_half().note(3.0, "runner", "frozen", name="p1").note(4.0, "runner", "thawed", name="p1")
    told.gives_up(4.1, "p1", "dropped").claims(4.5, "p1", 5, 0).takes(4.6, "p1", 5, 9).commits(4.7, "p1", 10, 1)
    assert told.gives_up(5.0, "p1").final(6.0, 10).judged()["violations"] == []


def test_zombie_of_the_jvm_is_counted_and_excused():
    told = Told().member("j1", "jvm").member("p2").acked(0, 9, 1.0).owner(1.2, "j1").takes(2.0, "j1", 0, 4, seq=False)
    told.note(2.5, "observer", "offset", partition=0, offset=5, version=0).owner(4.9, None)
    told.takes(5.2, "j1", 5, 6, seq=False)
    figures = second_half(told).judged()
    assert figures["violations"] == []
    assert figures["delivered_without_owning"]["by_jvm_zombies"] == 2
    assert figures["duplicates_by_cause"] == {"JVM member": 2}


def test_accepted_commit_of_a_zombie_is_found():
    told = first_half().takes(4.0, "p1", 5, 5).claims(5.0, "p2", 5, 0).commits(5.2, "p1", 6, 1, began=4.9)
    told.note(5.3, "p1", "session", kind="expired", session=0).gives_up(5.4, "p1", "dropped")
    told.takes(5.5, "p2", 5, 9).commits(6.0, "p2", 10, 2).gives_up(7.0, "p2").final(8.0, 10)
    figures = told.judged()
    assert names_of(figures) == ["zombie commit"]
    assert figures["zombie_commits"]["accepted"] == 1


def test_commit_that_was_written_before_the_other_read_it_is_none_of_a_zombie():
    told = first_half().takes(4.0, "p1", 5, 5).claims(5.0, "p2", 6, 1).commits(5.2, "p1", 6, 1, began=4.9)
    told.note(5.3, "p1", "session", kind="expired", session=0).gives_up(5.4, "p1", "dropped")
    told.takes(5.5, "p2", 6, 9).commits(6.0, "p2", 10, 2).gives_up(7.0, "p2").final(8.0, 10)
    assert told.judged()["violations"] == []


def test_refused_commit_of_a_zombie_is_counted():
    told = first_half()
    told.commits(5.2, "p1", 6, 1, error="SessionExpiredError").note(5.3, "p1", "session", kind="expired", session=0)
    figures = second_half(told.gives_up(5.4, "p1", "dropped")).judged()
    assert figures["violations"] == []
    assert figures["zombie_commits"] == {"accepted": 0, "SessionExpiredError": 1}


def test_commit_beyond_what_was_handed_out_is_found():
    told = first_half().commits(2.7, "p1", 6, 1).gives_up(3.0, "p1")
    told.takes(2.8, "p1", 5, 5)
    assert names_of(second_half(told, start=6, version=1).judged()) == ["committed ahead"]


@pytest.mark.parametrize(("began", "names"), [(2.7, []), (2.82, ["committed ahead"])])
def test_commit_on_its_way_while_a_stranger_takes_the_owner_znode_away_tells_of_the_life_before(began, names):
    told = first_half().takes(2.6, "p1", 5, 6).gives_up(2.75, "p1", how="dropped").claims(2.8, "p1", 5, 0)
    told.commits(2.85, "p1", 7, 1, began=began).takes(2.9, "p1", 5, 6).gives_up(3.0, "p1")
    assert names_of(second_half(told, start=7, version=1).judged()) == names


def test_offset_that_a_member_puts_back_is_found():
    told = first_half().gives_up(3.0, "p1").claims(5.0, "p2", 5, 0).takes(5.5, "p2", 5, 9)
    told.commits(5.6, "p2", 4, 1).commits(6.0, "p2", 10, 2).gives_up(7.0, "p2").final(8.0, 10)
    assert names_of(told.judged()) == ["backwards"]


def test_offset_that_a_member_of_the_jvm_puts_back_is_counted_and_excused():
    told = first_half().member("j1", "jvm").gives_up(3.0, "p1")
    told.note(4.0, "observer", "offset", partition=0, offset=3, version=1)
    figures = second_half(told, start=3, version=1).judged()
    assert figures["violations"] == []
    assert figures["backwards"]["with_jvm"] == 1
    assert figures["duplicates_by_cause"] == {"JVM member": 2}


def test_partition_that_never_flows_again_is_not_settled():
    told = second_half(first_half().gives_up(3.0, "p1")).fault(6.2, 6.4)
    figures = told.judged()
    assert names_of(figures) == ["not settled"]
    assert figures["faults"][0]["settle_s"] is None


def test_settling_lasts_until_the_last_message_that_had_to_wait():
    told = first_half().note(3.0, "runner", "killed", name="p1").fault(3.0, 3.1, "member kill -9")
    figures = second_half(told.acked(10, 10, 5.4).takes(5.6, "p2", 10, 10)).judged()
    (fault,) = figures["faults"]
    assert fault["settle_s"] == 2.5  # message 9 was acknowledged at 1.0 and came at 5.5, message 10 at 5.6
    assert fault["longest_wait_s"] == 0.2


def test_settling_beyond_the_limit_is_found():
    told = first_half().note(3.0, "runner", "killed", name="p1").fault(3.0, 3.1)
    told.claims(40.0, "p2", 5, 0).takes(41.0, "p2", 5, 9).commits(42.0, "p2", 10, 1).gives_up(43.0, "p2").final(
        44.0, 10
    )
    assert names_of(told.judged()) == ["not settled"]


def test_run_that_does_not_come_to_its_end_is_not_settled():
    told = first_half().gives_up(3.0, "p1").claims(5.0, "p2", 5, 0).takes(5.5, "p2", 5, 9)
    assert names_of(told.judged()) == ["not settled"]


def test_owner_znodes_members_and_uncommitted_messages_left_at_the_end_are_found():
    told = first_half().gives_up(3.0, "p1").claims(5.0, "p2", 5, 0).takes(5.5, "p2", 5, 9).gives_up(7.0, "p2")
    told.final(8.0, 5, owners={0: "g_p2-0"}, ids=["g_p2"])
    violations = told.judged()["violations"]
    assert names_of(told.judged()) == ["left behind"]
    assert len(violations) == 2


def test_stream_that_failed_is_found():
    told = second_half(first_half().gives_up(3.0, "p1")).note(6.5, "p2", "failed", error="FetchError: x")
    assert names_of(told.judged()) == ["broken"]


@pytest.mark.parametrize(("code", "names"), [(0, []), (1, ["broken"]), (-9, ["broken"])])
def test_member_that_ends_with_an_error_is_found(code, names):
    told = second_half(first_half().gives_up(3.0, "p1")).note(7.5, "runner", "ended", name="p2", code=code)
    assert names_of(told.judged()) == names


@pytest.mark.parametrize("number", [5, None], ids=["another message's", "none that can be read"])
@pytest.mark.parametrize("first", [0, 3], ids=["all", "the last two"])
def test_wrong_bytes_are_a_violation(first, number):
    told = Told().member("p1").member("p2").acked(0, 9, 1.0).claims(1.5, "p1", None, None)
    if first:
        told.takes(1.9, "p1", 0, first - 1)
    told.note(2.0, "p1", "delivered", partition=0, first=first, last=4, seq=number, asked=2.0, looked=2.0)
    figures = second_half(told.commits(2.5, "p1", 5, 0).gives_up(3.0, "p1")).judged()
    assert names_of(figures) == ["wrong"]
    assert figures["wrong"] == 5 - first


def test_one_wrong_message_in_the_midst_is_a_violation():
    told = first_half().gives_up(3.0, "p1").claims(5.0, "p2", 5, 0).takes(5.5, "p2", 5, 6)
    told.note(5.6, "p2", "delivered", partition=0, first=7, last=7, seq=8, asked=5.6, looked=5.6).takes(5.7, "p2", 8, 9)
    assert names_of(told.commits(6.0, "p2", 10, 1).gives_up(7.0, "p2").final(8.0, 10).judged()) == ["wrong"]


def in_transactions():
    """Return a history in which 0 to 4 and 9 are committed, 6 and 7 are aborted, and 5 and 8 are markers."""
    told = Told().member("p1").acked(0, 4, 1.0).acked(9, 9, 1.0).claims(1.5, "p1", None, None)
    for offset in (6, 7):
        told.note(1.0, "producer", "aborted", partition=0, offset=offset, seq=offset)
    return told


def test_ends_of_transactions_and_what_was_aborted_are_no_gaps():
    told = in_transactions().takes(2.0, "p1", 0, 4).commits(2.1, "p1", 5, 0).takes(2.2, "p1", 9, 9)
    figures = told.commits(2.5, "p1", 10, 1).gives_up(3.0, "p1").final(4.0, 10).judged()
    assert figures["violations"] == []
    assert (figures["acknowledged"], figures["delivered"], figures["aborted"]) == (6, 6, 2)


def test_a_lost_message_after_the_end_of_a_transaction_is_found():
    told = in_transactions().takes(2.0, "p1", 0, 3).takes(2.2, "p1", 9, 9)
    figures = told.commits(2.5, "p1", 10, 0).gives_up(3.0, "p1").final(4.0, 10).judged()
    assert names_of(figures) == ["lost", "order"]


@pytest.mark.parametrize(("isolation", "names"), [("read_committed", ["aborted"]), ("read_uncommitted", [])])
def test_an_aborted_message_for_a_reader_of_committed_messages_is_found(isolation, names):
    told = in_transactions().takes(2.0, "p1", 0, 4).takes(2.1, "p1", 6, 7).takes(2.2, "p1", 9, 9)
    told.note(0.0, "runner", "member", name="p1", kind="python", id="g_p1", isolation=isolation)
    figures = told.commits(2.5, "p1", 10, 0).gives_up(3.0, "p1").final(4.0, 10).judged()
    assert names_of(figures) == names
    assert figures["aborted_handed_out"] == 2 * len(names)


def test_a_message_holds_its_number_only_if_every_byte_is_as_it_was_produced():
    whole = value_of(1234)
    assert number_of(whole) == 1234
    spoilt = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    assert {number_of(value) for value in spoilt} <= {None, *(int(value[:20]) for value in spoilt[:20])}
    assert [number_of(value) for value in (*spoilt[20:], whole[:-1], b"", b"-" + whole[1:])] == [None] * 83


@pytest.mark.parametrize("is_ephemeral", [True, False])
def test_an_operator_clears_up_what_a_stranger_left_and_no_reset_that_is_under_way(is_ephemeral):
    store = MemoryStore(MemoryZooKeeper())
    store.start()
    for path, ephemeral in ((request_path("g"), is_ephemeral), (ConsumerIdPath("g", "stranger-1").path, False)):
        store.create(path, b"", ephemeral=ephemeral, make_parents=True)
    store.create(ConsumerIdPath("g", "p1").path, b"", ephemeral=True)
    clear_up(store, "g")
    assert store.get_children(ConsumerIdsPath("g").path) == ("p1",)
    assert (store.exists(request_path("g")) is not None) == is_ephemeral


# The files of a history.


def test_line_that_a_death_cut_off_is_left_out(tmp_path):
    writer = HistoryFile(tmp_path, "p1")
    writer.write("status", phase="stable", at=2.0)
    writer.write("joined", id="g_p1", at=1.0)
    writer.close()
    with writer.path.open("a") as file:
        file.write('{"at":3.0,"who":"p1","wh')
    assert [event.what for event in load_history(tmp_path)] == ["joined", "status"]


def test_tail_reads_what_is_new_and_whole(tmp_path):
    tail, writer = Tail(tmp_path), HistoryFile(tmp_path, "p1")
    writer.write("one")
    assert [event.what for event in tail.fresh()] == ["one"]
    with writer.path.open("a") as file:
        file.write('{"at":3.0,"who":"p1",')
        file.flush()
        assert list(tail.fresh()) == []
        file.write('"what":"two"}\n')
    assert [event.what for event in tail.fresh()] == ["two"]
    writer.close()


def test_runs_break_where_offsets_or_numbers_do():
    messages = [(0, 5, 5), (0, 6, 6), (1, 0, 0), (0, 7, 9), (0, 9, 11)]
    assert sorted(runs_of(messages)) == [(0, 5, 6, 5), (0, 7, 7, 9), (0, 9, 9, 11), (1, 0, 0, 0)]


def test_picture_shows_owners_faults_and_who_was_frozen():
    told = second_half(first_half().gives_up(3.0, "p1").owner(1.4, "p1").owner(3.0, None).owner(4.9, "p2"))
    told.note(3.2, "runner", "frozen", name="p1").note(4.0, "runner", "thawed", name="p1")
    told.fault(3.1, 4.1, "member <frozen>")
    svg = draw(sorted(told.events, key=lambda event: event.at), "a title")
    titles = [found.text for found in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}title")]
    assert "1. member <frozen>: x, 1.0 s" in titles
    assert "p1 is frozen" in titles
    assert "partition 0: p1 for 1.60 s" in titles
    assert "partition 0: p2 for 3.10 s" in titles


def test_user_data_that_a_member_did_not_tell_are_written_down(monkeypatch):
    wrong = []
    monkeypatch.setattr(Telling, "wrong", wrong.append)
    mine, other = Telling(), Telling()
    mine.configure({"assignment.telling.by": "p1"})
    other.configure({"assignment.telling.by": "p2"})
    told = {name: one.subscription_user_data(("t",)) for name, one in (("g_p1-1", mine), ("g_p2-2", other))}
    given = mine.assign(Cluster.of_counts({"t": 2}), {name: Subscription(("t",), data) for name, data in told.items()})
    mine.on_assignment(given["g_p1-1"], 1)
    assert wrong == []
    mine.on_assignment(given["g_p2-2"], 1)
    mine.on_assignment(MemberAssignment(), 2)
    assert wrong == [
        "user data of p1: generation 1 brings back what p2 told",
        "user data of p1: generation 2 brings back b''",
    ]
