import os
import signal
import sys

import pytest

from legacy_consumer.errors import ServerStartError
from legacy_consumer.sandbox.servers.process import ServerProcess, Workspace


@pytest.fixture
def workspace(tmp_path):
    with Workspace("test", tmp_path) as opened:
        yield opened


@pytest.fixture
def start(workspace):
    started = []

    def start(script, name="server"):
        started.append(ServerProcess(name, ["/bin/sh", "-c", script], workspace, workspace.folder / "log"))
        return started[-1]

    yield start
    for process in started:
        process.kill()


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_process_that_ends_while_it_starts_is_noticed_and_quoted(start):
    process = start("echo first; echo the reason >&2; exit 3")
    with pytest.raises(ServerStartError, match="server did not start: its process ended with exit code 3") as caught:
        process.wait_until(lambda: False, 60, "it was not ready")
    assert caught.value.log_tail == "first\nthe reason"


def test_a_process_that_never_gets_ready_is_given_up_after_the_bound(start):
    process = start("exec sleep 60")
    with pytest.raises(ServerStartError, match=r"it was not ready within 0\.05 s"):
        process.wait_until(lambda: False, 0.05, "it was not ready")


def test_the_log_of_an_earlier_start_is_not_quoted(start):
    assert start("echo Address already in use").wait(60) == 0
    second = start("echo fine")
    assert second.wait(60) == 0
    assert second.log_text() == "fine\n"
    assert not second.lost_its_port()


def test_a_process_that_ignores_sigterm_is_killed_after_the_bound(start, caplog):
    process = start("trap '' TERM; echo ready; while :; do sleep 0.01; done")
    process.wait_until(lambda: "ready" in process.log_text(), 60, "ready")
    process.stop(0.05)
    assert process.wait(0) == -signal.SIGKILL
    assert "did not end within 0.05 s of SIGTERM" in caplog.text


def test_the_process_is_the_program_itself_in_a_session_of_its_own(workspace):
    code = "import os, sys; print(os.getpid(), os.getsid(0), sys.stdin.read() == '')"
    process = ServerProcess("python", [sys.executable, "-c", code], workspace, workspace.folder / "log")
    assert process.wait(60) == 0
    assert process.log_text() == f"{process.pid} {process.pid} True\n"


def test_closing_the_workspace_ends_its_processes_and_removes_the_folder(tmp_path):
    workspace = Workspace("test", tmp_path)
    workspace.open()
    process = ServerProcess("server", ["/bin/sh", "-c", "exec sleep 60"], workspace, workspace.folder / "log")
    workspace.close()
    assert process.wait(60) == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []
    workspace.close()


def test_the_folder_is_removed_even_if_the_keeper_was_killed(tmp_path):
    workspace = Workspace("test", tmp_path)
    workspace.open()
    assert workspace._keeper is not None
    workspace._keeper.kill()
    workspace._keeper.wait()
    workspace.close()
    assert list(tmp_path.iterdir()) == []


def test_a_closed_workspace_starts_nothing(tmp_path):
    workspace = Workspace("test", tmp_path)
    with pytest.raises(ServerStartError, match="not started"):
        ServerProcess("server", ["/bin/sh"], workspace, tmp_path / "log")


def test_the_folder_is_the_users_alone(workspace):
    assert workspace.folder.stat().st_mode & 0o777 == 0o700
