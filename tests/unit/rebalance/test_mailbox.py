"""The mailbox of a coordinator: the order of its mail, and when the coordinator waits for more."""

import itertools
import sys

import pytest

from rebalance.clock import SystemClock
from rebalance.events import Drained, Expired, Triggered
from rebalance.mailbox import Errand, Mailbox
from zk_layout.store import WatchEvent, WatchKind

KINDS = (Errand(print), WatchEvent(WatchKind.CHILDREN, "/a"), Triggered("a"), Drained(), Expired())


class Told(SystemClock):
    """A clock that does not wait, but records whether the event was set."""

    def __init__(self):
        self.bells = []

    def wait(self, event, timeout_s):
        self.bells.append(event.wait(0))


@pytest.mark.parametrize("errands_first", [False, True])
@pytest.mark.parametrize("posted", list(itertools.permutations(KINDS, 3)))
def test_nobody_waits_while_there_is_mail_also_if_a_defect_ended_what_was_done_with_the_mail_before(
    posted, errands_first
):
    clock = Told()
    mailbox = Mailbox(clock)
    for mail in posted:
        mailbox.post(mail)
    taken = []
    for _ in posted:
        mailbox.wait(1.0)
        taken += mailbox.take(errands_first=errands_first)
    assert (set(taken), clock.bells) == (set(posted), [True] * 3)
    mailbox.wait(1.0)
    assert clock.bells.pop() is False, "no mail is left"


class Note:
    """Mail that counts the comparisons with it."""

    compared = 0

    def __init__(self, text):
        self.text = text

    def __hash__(self):
        return hash(self.text)

    def __eq__(self, other):
        Note.compared += 1
        return isinstance(other, Note) and other.text == self.text


def test_what_is_posted_while_much_waits_is_compared_with_its_equals_alone():
    mailbox = Mailbox(SystemClock())
    for _ in range(2):
        for number in range(1000):
            mailbox.post(Note(str(number)))
    assert Note.compared < 1100
    assert [mailbox.take()[0].text for _ in range(1000)] == [str(number) for number in range(1000)]
    assert mailbox.take() == []


@pytest.mark.parametrize("call", ["post", "take", "changed"])
def test_a_finaliser_that_posts_while_its_thread_holds_the_mailbox_stops_nobody_and_is_heard(call):
    """The garbage collector may run a finaliser at any line; here while the same thread holds the mailbox's lock."""
    mailbox = Mailbox(SystemClock())
    mailbox.post(WatchEvent(WatchKind.CHILDREN, "/a"))
    mailbox.post(Drained())
    left = [Triggered("by a finaliser")]

    def collect(frame, event, _):
        if frame.f_code.co_filename.endswith("mailbox.py") and left and mailbox._lock._is_owned():
            mailbox.post(left.pop())
        return collect

    before = sys.gettrace()
    sys.settrace(collect)
    try:
        found = {"post": lambda: mailbox.post(Expired()), "take": mailbox.take, "changed": mailbox.changed}[call]()
    finally:
        sys.settrace(before)
    assert left == []
    taken = list(found) if call == "take" else []
    while mail := mailbox.take():
        taken += mail
    expected = {WatchEvent(WatchKind.CHILDREN, "/a"), Drained(), Triggered("by a finaliser")}
    assert set(taken) == expected | ({Expired()} if call == "post" else set())
