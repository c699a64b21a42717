"""A logging handler that calls the consumer while its coordinator tells the listener."""

import ast
import logging
from pathlib import Path

import pytest

import legacy_consumer
from legacy_consumer import Phase
from legacy_consumer.errors import CallInProgressError
from legacy_consumer.member import interrupted_calls, listener_calls
from legacy_consumer.member.listener import in_our_words
from legacy_consumer.member.telling import Telling
from tests.support.led_cluster import LedCluster
from tests.support.waiting import eventually

MEMBER = Path(legacy_consumer.__file__).parent / "member"
NOT_INSIDE = {
    "broker_watch": "it has a thread of its own",
    "closing": "its functions run between the calls of a connector",
    "joining_checks": "the same",
    "listener_calls": "the user's hooks run inside its calls",
    "membership": "it joins the parts, and its calls are the connector's",
    "resets.follower": "it passes calls on to the delivery",
}
"""The modules of a member that log, and whose objects no call is refused in; and why."""
CALLS = ["commit_offsets", "unsubscribe"]


class Java:
    """A listener with Java's hooks. `wait`: what a hook about no partitions does."""

    def __init__(self):
        self.told = []
        self.wait = lambda: None

    def on_partitions_revoked(self, partitions):
        self.told.append(("revoked", len(partitions)))
        if not partitions:
            self.wait()

    def on_partitions_assigned(self, partitions):
        self.told.append(("assigned", len(partitions)))


@pytest.fixture
def led():
    """A led group of two members, of which b has no partition."""
    cluster = LedCluster(partition_assignment_strategy="range", drain_timeout_ms=200)
    cluster.create_topic("one", 1)
    cluster.listener = Java()
    cluster.join(Java(), topic="one", consumer_id="a")
    cluster.b, _ = cluster.join(cluster.listener, topic="one", consumer_id="b")
    eventually(lambda: ("assigned", 0) in cluster.listener.told)
    yield cluster
    for connector in cluster.connectors:
        connector.shutdown()


def outcomes(request, text, call):
    """Return what came of a call that a logging handler makes at the first line that holds the text."""
    got = []

    class Calling(logging.Handler):
        def emit(self, record):
            if text in record.getMessage() and not got:
                got.append(None)
                try:
                    call()
                except Exception as error:
                    got[0] = error
                else:
                    got[0] = "the call was made"

    logger, handler = logging.getLogger("legacy_consumer.member.listener_calls"), Calling()
    logger.addHandler(handler)
    request.addfinalizer(lambda: logger.removeHandler(handler))
    return got


@pytest.mark.parametrize("call", CALLS)
def test_a_log_handler_called_while_a_step_waits_for_a_hook_is_refused_a_call(led, request, call):
    got = outcomes(request, "g_b: the rebalance listener did not return", getattr(led.b, call))
    late = listener_calls.Flag()
    led.listener.wait = late.wait
    request.addfinalizer(late.set)
    led.join(Java(), topic="one", consumer_id="c")
    eventually(lambda: got and got[0])
    assert isinstance(got[0], CallInProgressError)
    late.set()
    assert led.b.wait_until(lambda status: status.phase is Phase.STABLE, 20)


@pytest.mark.parametrize("call", CALLS)
def test_a_log_handler_called_as_a_hook_is_queued_is_refused_a_call(led, request, monkeypatch, call):
    got = outcomes(request, "g_b: the rebalance listener does not return", getattr(led.b, call))
    monkeypatch.setattr(listener_calls, "_MOST_WAITING", 0)
    led.join(Java(), topic="one", consumer_id="c")
    eventually(lambda: got and got[0])
    assert isinstance(got[0], CallInProgressError)
    assert led.b.wait_until(lambda status: status.phase is Phase.STABLE, 20)


def test_no_call_is_made_inside_an_object_of_a_module_that_logs():
    logging_modules = {
        ".".join(path.relative_to(MEMBER).with_suffix("").parts)
        for path in MEMBER.rglob("*.py")
        if "logger = safe_logger(" in path.read_text()
    }
    refusing = {name.removeprefix("legacy_consumer.member.") for name in interrupted_calls._MODULES}
    assert logging_modules - refusing == NOT_INSIDE.keys()
    assert not refusing & NOT_INSIDE.keys()


def test_no_function_that_calls_a_hook_uses_self():
    """The calls that a hook makes would count as calls inside the object, and be refused."""
    module = ast.parse((MEMBER / "telling.py").read_text())
    inner = [
        function
        for method in ast.walk(module)
        if isinstance(method, ast.FunctionDef)
        for function in ast.walk(method)
        if isinstance(function, ast.FunctionDef | ast.Lambda)
        and function is not method
        and "listener" in [argument.arg for argument in function.args.args]
    ]
    assert len(inner) > 4
    for function in inner:
        assert not [name for name in ast.walk(function) if isinstance(name, ast.Name) and name.id == "self"], function


def test_a_listener_that_is_first_called_after_the_time_for_leaving_is_not_waited_for():
    blocked = listener_calls.Flag()
    telling = Telling("g_m", committer=None, bound_s=60.0)
    listener = Java()
    listener.wait = blocked.wait
    telling.listener = in_our_words(listener)
    telling.begin_closing(0.0)
    telling.tell_nothing_revoked()
    assert list(telling.hear_out()) == [], "it waits"
    blocked.set()
    telling.close()
