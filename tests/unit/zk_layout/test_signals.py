"""Flags and conditions: each change wakes the waiting threads, and an exception at any instruction does no harm."""

import ast
import threading
from pathlib import Path

import kazoo.handlers.utils
import pytest

from tests.support.at_line import AfterCall, AtLine
from tests.support.waiting import eventually
from zk_layout import kazoo_client, signals
from zk_layout.kazoo_client import StoreHandler
from zk_layout.signals import Flag, Signal

ROOT = Path(__file__).parents[3]
LIBRARY = (signals.__file__, threading.__file__)


def test_a_flag_waits_as_an_event_does():
    flag = Flag()
    assert (flag.is_set(), flag.wait(0), flag.wait(0.01)) == (False, False, False)
    flag.set()
    assert (flag.is_set(), flag.wait(0), flag.wait()) == (True, True, True)
    flag.clear()
    assert (flag.is_set(), flag.wait(0)) == (False, False)


@pytest.mark.parametrize("waiting", [1, 5])
def test_each_thread_that_waits_is_woken(waiting):
    flag = Flag()
    results = []
    threads = [threading.Thread(target=lambda: results.append(flag.wait(60))) for _ in range(waiting)]
    for thread in threads:
        thread.start()
    flag.set()
    for thread in threads:
        thread.join(60)
    assert results == [True] * waiting


def test_a_thread_that_waits_looks_again_after_each_change():
    signal = Signal()
    values, seen = [0], []

    def is_reached():
        seen.append(values[0])
        return values[0] == 3

    thread = threading.Thread(target=signal.wait_for, args=(is_reached, 60))
    thread.start()
    for value in (1, 2, 3):
        values[0] = value
        signal.notify()
        eventually(lambda value=value: seen[-1] == value)
    thread.join(60)
    assert not thread.is_alive()


def test_what_changes_during_the_first_look_is_not_missed():
    signal = Signal()
    values = []

    def is_reached():
        if not values:
            values.append("changed behind this look")
            signal.notify()
            return False
        return True

    assert signal.wait_for(is_reached, 60)


class SoftTimeLimitError(Exception):
    """An exception that a task queue raises in a running thread."""


def limit():
    raise SoftTimeLimitError


@pytest.mark.parametrize("strikes", [AtLine, AfterCall])
@pytest.mark.parametrize("call", ["set", "wait", "wait a little", "clear", "notify"])
def test_after_an_exception_at_any_place_of_a_call_all_others_go_on(strikes, call):
    for line in range(200):
        flag = Flag()
        waiting = threading.Thread(target=flag.wait, args=(60,))
        if call in ("set", "notify"):
            waiting.start()
        calls = {"wait a little": lambda flag=flag: flag.wait(0.001), "wait": lambda flag=flag: flag.wait(0)}
        try:
            with strikes(line, limit, LIBRARY) as at:
                calls.get(call, getattr(flag, call, None))()
        except SoftTimeLimitError:
            pass
        if call not in ("set", "notify"):
            waiting.start()
        flag.set()
        waiting.join(60)
        assert not waiting.is_alive()
        assert flag.wait(60)
        if not at.struck:
            break
    assert not at.struck, "all places were tried"


@pytest.mark.parametrize("outer", ["set", "wait", "clear"])
@pytest.mark.parametrize("inner", ["set", "clear"])
def test_a_handler_may_call_it_at_any_line_of_a_call(outer, inner):
    for line in range(200):
        flag = Flag()
        with AtLine(line, getattr(flag, inner), LIBRARY) as at:
            flag.wait(0) if outer == "wait" else getattr(flag, outer)()
        flag.set()
        assert flag.wait(60)
        if not at.struck:
            break
    assert not at.struck, "all lines were tried"


PACKAGES = ("legacy_consumer/member", "legacy_consumer/offsets", "legacy_consumer/fetching", "rebalance", "zk_layout")
PYTHONS_OWN = ("threading.Event()", "threading.Condition()")


def conditions_and_events():
    """Yield (file, line) of each Event that the packages make, and each Condition that makes its lock or is entered."""
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        made = [node for node in nodes if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)]
        conditions = {
            ast.unparse(node.targets[0]) for node in made if ast.unparse(node.value.func) == "threading.Condition"
        }
        for node in nodes:
            entered = {ast.unparse(item.context_expr) for item in node.items} if isinstance(node, ast.With) else set()
            if entered & conditions or (isinstance(node, ast.Call) and ast.unparse(node) in PYTHONS_OWN):
                yield path.name, node.lineno


def test_no_lock_of_the_library_is_entered_in_python_code():
    assert list(conditions_and_events()) == []


@pytest.mark.parametrize("strikes", [AtLine, AfterCall])
def test_a_thread_that_waits_for_zookeepers_answer_takes_no_lock_that_an_exception_could_leave_taken(strikes):
    """kazoo's thread sets the answer under such a lock; that thread would wait for ever, and the session would end."""
    for line in range(200):
        reply = StoreHandler(None).async_result()
        try:
            with strikes(line, limit, (*LIBRARY, kazoo_client.__file__, kazoo.handlers.utils.__file__)) as at:
                assert reply.wait(0.001) is False
        except SoftTimeLimitError:
            pass
        answering = threading.Thread(target=reply.set, args=(17,), daemon=True)
        answering.start()
        answering.join(60)
        assert not answering.is_alive()
        assert (reply.wait(60), reply.value, reply.exception) == (True, 17, None)
        if not at.struck:
            break
    assert not at.struck, "all lines were tried"
