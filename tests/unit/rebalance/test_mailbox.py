"""The mailbox of a coordinator: what is taken first, and when its taker waits."""

import itertools

import pytest

from rebalance.clock import SystemClock
from rebalance.events import Drained, Expired, Triggered
from rebalance.mailbox import Errand, Mailbox
from zk_layout.store import WatchEvent, WatchKind

KINDS = (Errand(print), WatchEvent(WatchKind.CHILDREN, "/a"), Triggered("a"), Drained(), Expired())


class Told(SystemClock):
    """Does not wait; notes whether there was a reason not to."""

    def __init__(self):
        self.bells = []

    def wait(self, event, timeout_s):
        self.bells.append(event.is_set())


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
