"""The end of `legacy-consumer consume`: signals, and which messages count as printed."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.operations.cli.console_consumer import Printer, print_streams
from legacy_consumer.operations.cli.consume import _delete_own
from legacy_consumer.operations.cli.helpers.ending import Ending
from legacy_consumer.operations.cli.helpers.message_lines import lines_in
from tests.support.fake_kafka import FakeMessage
from tests.support.memory_cluster import MemoryCluster
from zk_layout.model import TopicPartition

MESSAGES = [FakeMessage(TopicPartition("t", 0), n) for n in range(3)]


class Out(io.BytesIO):
    """An output that fails at each write, or at each flush, as failing says."""

    def __init__(self, failing):
        super().__init__()
        self.failing = failing

    def flush(self):
        if self.failing == "flush":
            raise BrokenPipeError

    def write(self, data):
        if self.failing == "write":
            super().write(data[:2])
            raise BrokenPipeError
        return super().write(data)


def handlers():
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


def test_before_anything_has_begun_a_signal_ends_it_where_it_stands():
    before, reached = handlers(), []
    with Ending() as ending:
        signal.raise_signal(signal.SIGTERM)
        reached.append("behind")
    assert reached == []
    assert (ending.requested, ending.exit_code) == (True, 0)
    assert handlers() == before


def test_a_signal_after_the_end_of_the_work_has_no_effect(monkeypatch):
    before, put_back, late = handlers(), signal.signal, [signal.SIGINT]

    def interrupted(number, handler):
        if late:
            signal.raise_signal(late.pop())
        return put_back(number, handler)

    with Ending() as ending:
        ending.wait_for_end()
        signal.raise_signal(signal.SIGINT)
        monkeypatch.setattr(signal, "signal", interrupted)
    assert (late, ending.exit_code) == ([], 130)
    assert handlers() == before


def test_more_ctrl_c_presses_do_not_disturb_the_end():
    before, reached = handlers(), []
    with Ending() as ending:
        ending.wait_for_end()
        try:
            for _ in range(2):
                signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGINT)
            reached.append("put away")
    assert reached == ["put away"]
    assert handlers() == before


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_later_the_first_signal_is_a_request_and_the_second_ends_it(number, exit_code):
    before, reached = handlers(), []
    with Ending() as ending:
        ending.wait_for_end()
        assert not ending.requested
        signal.raise_signal(number)
        reached.append(ending.requested)
        signal.raise_signal(signal.SIGTERM)
        reached.append("behind the second")
    assert reached == [True]
    assert ending.exit_code == exit_code
    assert handlers() == before


def test_a_closed_terminal_is_a_request_to_end_unless_nohup_ignores_it():
    """A member ended without a commit and without leaving, and a group of its own stayed for ever."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with Ending() as ending:
            ending.wait_for_end()
            signal.raise_signal(signal.SIGHUP)
            assert ending.requested
        assert ending.exit_code == 129
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with Ending() as ending:
            ending.wait_for_end()
            signal.raise_signal(signal.SIGHUP)
            assert not ending.requested
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_group_of_its_own_that_cannot_be_deleted_is_named():
    config = ConsumerConfig.load(
        zookeeper_connect="127.0.0.1:1", group_id="console-consumer-7", zookeeper_connection_timeout_ms=200
    )
    with pytest.raises(click.ClickException) as caught:
        _delete_own(config)
    assert caught.value.message.startswith("group console-consumer-7 stays in ZooKeeper: no ZooKeeper answered at")


def test_without_a_signal_the_exit_code_is_0():
    with Ending() as ending:
        pass
    assert (ending.requested, ending.exit_code) == (False, 0)


def test_an_error_passes_through_and_the_handlers_are_put_back():
    before = handlers()
    with pytest.raises(ValueError, match="real"), Ending():
        raise ValueError("real")
    assert handlers() == before


@pytest.mark.parametrize("failing", ["write", "flush"])
def test_a_batch_that_was_not_flushed_is_not_printed(failing):
    printer = Printer(lines_in("value"), Out(None))
    printer.print(MESSAGES)
    assert (printer.printed, printer.is_stuck) == (3, False)
    printer.out = Out(failing)
    with pytest.raises(BrokenPipeError):
        printer.print(MESSAGES)
    assert (printer.printed, printer.is_stuck) == (3, True)


def test_an_output_that_takes_less_than_it_is_given_gets_the_rest():
    class Unbuffered(Out):
        def write(self, data):
            return super().write(data[:2])

    printer = Printer(lines_in("value"), Unbuffered(None))
    printer.print(MESSAGES)
    assert printer.out.getvalue() == b"t/0@0\nt/0@1\nt/0@2\n"


def test_a_signal_that_ends_a_write_leaves_the_batch_unprinted():
    class Blocked(Out):
        def write(self, data):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            return len(data)

    printer = Printer(lines_in("value"), Blocked(None))
    with Ending() as ending:
        ending.wait_for_end()
        printer.print(MESSAGES)
    assert (printer.printed, printer.is_stuck) == (0, True)


BLOCKED = """
import sys
from legacy_consumer.operations.cli.console_consumer import Printer, print_streams
from legacy_consumer.operations.cli.helpers.ending import Ending

with Ending() as ending:
    ending.wait_for_end(0.2)
    printer = Printer(lambda messages: b"x" * 10_000_000, sys.stdout.buffer)
    print("writing", file=sys.stderr, flush=True)
    with ending.writing():
        printer.print([1])
print(ending.requested, printer.printed, printer.is_stuck, file=sys.stderr)
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_one_signal_ends_a_command_whose_reader_stands_still(unbuffered):
    with subprocess.Popen(
        [sys.executable, "-c", BLOCKED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[5],
        env={"PATH": "", "PYTHONUNBUFFERED": unbuffered},
    ) as process:
        assert process.stderr.readline() == b"writing\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr.read() == b"True 0 True\n"


class Silence:
    """A stream without messages."""

    def __init__(self, when_asked):
        self.when_asked = when_asked

    def batches(self, _size, timeout):
        self.when_asked()
        return iter([[]])


def test_a_reader_that_goes_while_no_message_comes_ends_it():
    read, write = os.pipe()
    asked = []

    def go_at_the_third():
        asked.append(1)
        if len(asked) == 3:
            os.close(read)
        assert len(asked) < 5

    streams = [Silence(go_at_the_third)]
    with os.fdopen(write, "wb") as out, Ending() as ending:
        printer = Printer(lines_in("value", b""), out)
        with pytest.raises(BrokenPipeError):
            print_streams(streams, printer, ending, max_messages=None, timeout_ms=None)
    assert len(asked) == 3


def test_an_output_that_is_no_pipe_ends_nothing(tmp_path):
    with (tmp_path / "out").open("wb") as out:
        Printer(lines_in("value", b""), out).check_reader()
    Printer(lines_in("value", b""), io.BytesIO()).check_reader()


def test_ctrl_c_while_the_modules_are_loaded_shows_no_traceback():
    program = (
        "import sys, runpy\n"
        "class Struck:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'click': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Struck())\n"
        "runpy.run_module('legacy_consumer', run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def test_a_command_that_cannot_begin_deletes_no_offsets(monkeypatch):
    cluster = MemoryCluster(monkeypatch)
    cluster.topic("t", (0, 50))
    cluster.commit("g", "t", 42)
    before = cluster.tree()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        run = cluster.run("consume", "--topic=t", "--group=g", "--delete-consumer-offsets", "--metrics-port", port)
    assert (run.code, "something listens there" in run.err) == (1, True)
    assert cluster.tree() == before
