"""A chaos run that does not settle shows the stacks of its members' threads."""

import sys

from tests.support.jvm_member import LineProcess

PROGRAM = """
import faulthandler, signal, sys
faulthandler.register(signal.SIGUSR1)
def stand_still():
    print("ready", flush=True)
    sys.stdin.read()
stand_still()
"""


def test_a_member_that_stands_still_writes_where_its_threads_are(tmp_path):
    member = LineProcess("still", [sys.executable, "-c", PROGRAM], tmp_path)
    member.wait_until(lambda: member.lines == ["ready"], "ready")
    member.write_stacks()
    member.kill()
    assert "in stand_still" in member.log_tail()
