"""Nothing of an embedded server outlives the program that started it, however that program ends."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from legacy_consumer.embedded import EmbeddedKafka, EmbeddedZooKeeper, four_letter_word
from legacy_consumer.sandbox.servers.ports import is_free
from legacy_consumer.sandbox.servers.waiting import wait_for

pytestmark = pytest.mark.kafka

IN_MAIN_THREAD = "start()"
IN_SHORT_LIVED_THREAD = "thread = threading.Thread(target=start); thread.start(); thread.join()"
PROGRAM = """
import json, multiprocessing, threading, time
from legacy_consumer.embedded import EmbeddedKafka
kafka = EmbeddedKafka()
start = kafka.start
{start}
{then}
print(json.dumps({{"pids": [broker.pid for broker in kafka.brokers],
                  "ports": [broker.port for broker in kafka.brokers] + [int(kafka.zookeeper_connect.split(":")[1])]}}),
      flush=True)
threading.Event().wait()
"""


class Program:
    """A Python program with embedded servers, and its report about them."""

    def __init__(self, folder, start=IN_MAIN_THREAD, then=""):
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(start=start, then=then)],
            stdout=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(folder)},
            start_new_session=True,
        )
        line = self.process.stdout.readline()
        self.told = json.loads(line)

    def is_all_gone(self):
        return (
            not any(is_running(pid) for pid in self.told["pids"])
            and all(is_free(port) for port in self.told["ports"])
            and not list(self.folder.iterdir())
        )

    def close(self):
        with_group_killed(self.process)


def with_group_killed(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def program(tmp_path):
    started = []

    def start(**how):
        started.append(Program(tmp_path, **how))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.mark.parametrize("start", [IN_MAIN_THREAD, IN_SHORT_LIVED_THREAD], ids=["main thread", "thread that ended"])
def test_servers_and_folders_end_with_a_program_that_is_killed(program, start):
    killed = program(start=start)
    assert all(is_running(pid) for pid in killed.told["pids"])
    assert not any(is_free(port) for port in killed.told["ports"])
    killed.process.kill()
    wait_for(killed.is_all_gone, 60, lambda: AssertionError(f"left: {list(killed.folder.iterdir())}"))


def test_servers_end_with_the_program_even_if_a_forked_child_of_it_lives_on(program):
    then = "multiprocessing.get_context('fork').Process(target=time.sleep, args=(60,)).start()"
    killed = program(then=then)
    killed.process.kill()
    wait_for(killed.is_all_gone, 60, lambda: AssertionError(f"left: {list(killed.folder.iterdir())}"))


def test_servers_outlive_the_thread_that_started_them():
    zookeeper = EmbeddedZooKeeper()
    thread = threading.Thread(target=zookeeper.start)
    thread.start()
    thread.join()
    try:
        assert four_letter_word(zookeeper.port, "ruok") == "imok"
    finally:
        zookeeper.close()


def test_ctrl_c_in_the_terminal_does_not_reach_the_servers(program):
    ignoring = program(then="import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)")
    os.killpg(ignoring.process.pid, signal.SIGINT)  # a terminal also signals the whole foreground group
    for pid in ignoring.told["pids"]:
        assert os.getpgid(pid) != ignoring.process.pid
    port = ignoring.told["ports"][-1]
    assert four_letter_word(port, "ruok") == "imok"


def test_an_exception_in_the_with_block_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pids, ports = [], []

    def fail_while_it_runs():
        with EmbeddedKafka() as kafka:
            pids.append(kafka.brokers[0].pid)
            ports.append(kafka.brokers[0].port)
            assert list(tmp_path.iterdir())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_while_it_runs()
    assert not any(map(is_running, pids))
    assert all(map(is_free, ports))
    assert list(tmp_path.iterdir()) == []


def test_closing_twice_is_harmless_and_starting_twice_starts_once(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    zookeeper = EmbeddedZooKeeper()
    zookeeper.start()
    pid = zookeeper.pid
    zookeeper.start()
    assert zookeeper.pid == pid
    zookeeper.close()
    zookeeper.close()
    assert not is_running(pid)
    assert list(tmp_path.iterdir()) == []
