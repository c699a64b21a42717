"""Members of a group as separate processes, above all of Kafka's Scala consumer, and Kafka's tools.

A member writes a line to standard output for each thing that it does, and reads commands from standard input. It ends
at the end of that input, so no member outlives the tests. tests/interop/java/Member.java describes the lines.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from legacy_consumer.embedded import find_java, kafka_jars
from legacy_consumer.sandbox.servers.jvm import java_command, write_logging_files
from tests.support.waiting import eventually
from zk_layout.model import ConsumerThreadId, TopicPartition

SOURCES = Path(__file__).parent.parent / "interop" / "java"
PATIENCE_S = 60.0
_STACKS = "(most recent call first):"
"""The words with which faulthandler begins the stack of each thread."""

# a member lives for seconds, too short for the slower compiler to pay off
_BRIEF = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_SMALL = (*_BRIEF, "-Xms32m", "-Xmx128m")


def between_looks() -> None:
    """Pause between two checks of a condition in a loop."""
    time.sleep(0.02)


class Consumed(NamedTuple):
    """One message that a member handed out, and the time (seconds since 1970) when its line was read."""

    tp: TopicPartition
    offset: int
    at: float


class JvmPrograms:
    """The Java programs of these tests, compiled once for each Kafka version, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._java = find_java()
        self._compiled: dict[str, Path] = {}
        write_logging_files(folder, level="INFO", target="System.err")

    def command(self, version: str, main: str, *arguments: str) -> list[str]:
        """Return the command that runs a main class, ours or Kafka's, with the jars of a version; it logs to stderr."""
        jars = [self._compile(version), *kafka_jars(version)]
        return java_command(self._java, jars, main, arguments, folder=self.folder, flags=_SMALL)

    def _compile(self, version: str) -> Path:
        if version not in self._compiled:
            classes = self.folder / f"classes-{version}"
            classes.mkdir()
            jars = os.pathsep.join(map(os.fspath, kafka_jars(version)))
            sources = [os.fspath(source) for source in sorted(SOURCES.glob("*.java"))]
            compiler = [os.fspath(self._java), *_BRIEF, "-m", "jdk.compiler/com.sun.tools.javac.Main"]
            done = subprocess.run(
                [*compiler, "-nowarn", "-proc:none", "-cp", jars, "-d", os.fspath(classes), *sources],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
            )
            assert done.returncode == 0, f"does not compile against Kafka {version}:\n{done.stdout}{done.stderr}"
            self._compiled[version] = classes
        return self._compiled[version]


class LineProcess:
    """A child process whose output a thread reads line by line; its standard error goes to the file `log`."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.lines: list[str] = []
        self._changed = threading.Condition()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
                start_new_session=True,
                env={**os.environ, **(env or {})},
            )
        self._reader = threading.Thread(target=self._read, name=f"{name}-output", daemon=True)
        self._reader.start()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def tell(self, command: str) -> None:
        """Write one line to its input."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def wait_until(self, claim: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait until the claim holds; it is checked after each line."""
        with self._changed:
            if not self._changed.wait_for(claim, timeout_s):
                raise AssertionError(f"{self.name}: {what} did not happen in {timeout_s:g} s\n{self.log_tail()}")

    def terminate(self) -> None:
        """Send SIGTERM; do not wait."""
        self._process.terminate()

    def freeze(self) -> None:
        """Send SIGSTOP: the process stands still until thaw()."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Send SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process has ended and all its output is read."""
        if self.is_running:
            self._process.kill()
        self.await_end()

    def await_end(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait until the process has ended and all its output is read. Returns: its exit code."""
        code = self._process.wait(timeout_s)
        self._reader.join(timeout_s)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):  # a command was on its way to a dead process
            self._process.stdin.close()
        self._process.stdout.close()
        return code

    def write_stacks(self) -> None:
        """Make the process write its threads' stacks to its log; it must have registered SIGUSR1 with faulthandler."""
        if self.is_running:
            self._process.send_signal(signal.SIGUSR1)
            with contextlib.suppress(AssertionError):  # a frozen process writes none
                eventually(lambda: _STACKS in self.log_text(), 5)

    def log_text(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def log_tail(self) -> str:
        said = "\n".join(self.lines[-10:])
        log, stacks, threads = self.log_text().partition(_STACKS)
        return f"--- said last:\n{said}\n--- logged last:\n" + "\n".join(log.splitlines()[-30:]) + stacks + threads

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self.take(self.lines[-1])
                self._changed.notify_all()

    def take(self, line: str) -> None:
        """Handle one line; called for each, in order."""


class MemberProcess(LineProcess):
    """A member that prints the lines of Member.java.

    consumed: every message handed out so far. events: [(word, text)].
    assignments: its assignments of the whole group, newest last; with range, only of its own topics.
    """

    kind = "?"

    def __init__(self, name: str, command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> None:
        self.consumed: list[Consumed] = []
        self.events: list[tuple[str, str]] = []
        self.assignments: list[dict[TopicPartition, ConsumerThreadId]] = []
        self.consumer_id = ""
        super().__init__(name, command, folder, env)

    def take(self, line: str) -> None:
        what, _, rest = line.partition(" ")
        if what == "message":
            topic, partition, offset = rest.split(" ")
            self.consumed.append(Consumed(TopicPartition(topic, int(partition)), int(offset), time.time()))
        elif what == "assignment":
            self.assignments.append(_assignment(rest))
        elif what == "event":
            word, _, text = rest.partition(" ")
            self.events.append((word, text))
            if word in ("registered", "ready"):
                self.consumer_id = text

    def has(self, word: str) -> bool:
        """Return whether the member has written an event of this word."""
        return any(told == word for told, _ in self.events)

    def await_event(self, word: str, timeout_s: float = PATIENCE_S) -> str:
        """Wait for an event of this word. Returns: the text of the first."""
        self.wait_until(lambda: self.has(word), f"event {word}", timeout_s)
        return next(text for told, text in self.events if told == word)

    def commit(self) -> None:
        """Make the member commit, and wait until it has."""
        before = sum(word == "committed" for word, _ in self.events)
        self.tell("commit")
        self.wait_until(lambda: sum(word == "committed" for word, _ in self.events) > before, "a commit")

    def shutdown(self) -> None:
        """Make the member leave in order; do not wait."""
        self.tell("shutdown")


def _assignment(text: str) -> dict[TopicPartition, ConsumerThreadId]:
    assignment = {}
    for pair in text.split():
        partition, _, thread = pair.partition("=")
        topic, _, number = partition.rpartition("/")
        assignment[TopicPartition(topic, int(number))] = ConsumerThreadId.parse(thread)
    return assignment


@dataclass(frozen=True)
class Subscription:
    """kind: static, whitelist or blacklist. text: topic:streams,... or a regular expression; streams: of a filter."""

    kind: str
    text: str
    streams: int = 1

    @property
    def arguments(self) -> list[str]:
        return [self.kind, self.text, str(self.streams)]


def _property_arguments(properties: Mapping[str, str | int]) -> list[str]:
    return [f"{key}={value}" for key, value in properties.items()]


class JvmMember(MemberProcess):
    """A member of Kafka's Scala consumer of one version, through its Java API."""

    def __init__(
        self,
        programs: JvmPrograms,
        version: str,
        name: str,
        subscription: Subscription,
        properties: Mapping[str, str | int],
    ) -> None:
        self.kind = version
        arguments = [*subscription.arguments, *_property_arguments(properties)]
        super().__init__(name, programs.command(version, "Member", *arguments), programs.folder)


class ConsoleConsumer(LineProcess):
    """kafka.tools.ConsoleConsumer with --zookeeper, as operators run it.

    It prints only values, so each value must be `topic partition offset`. It reads a partition without a committed
    offset from the end: with the option to begin at the smallest offset, it refuses to join a group that has offsets.
    """

    def __init__(
        self,
        programs: JvmPrograms,
        version: str,
        name: str,
        subscription: Subscription,
        properties: Mapping[str, str | int],
    ) -> None:
        self.kind = f"console {version}"
        self.consumed: list[Consumed] = []
        self.assignments: list[dict[TopicPartition, ConsumerThreadId]] = []
        self.consumer_id = ""
        config = programs.folder / f"{name}.properties"
        settings = {key: value for key, value in properties.items() if key != "auto.offset.reset"}
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="ascii")
        chosen = {
            "static": ["--topic", subscription.text.partition(":")[0]],
            "whitelist": ["--whitelist", subscription.text],
            "blacklist": ["--blacklist", subscription.text],
        }[subscription.kind]
        arguments = ["--zookeeper", str(properties["zookeeper.connect"]), *chosen, "--consumer.config", str(config)]
        super().__init__(name, programs.command(version, "kafka.tools.ConsoleConsumer", *arguments), programs.folder)

    def take(self, line: str) -> None:
        words = line.split(" ")
        if len(words) == 3 and words[1].isdigit() and words[2].isdigit():
            tp = TopicPartition(words[0], int(words[1]))
            self.consumed.append(Consumed(tp, int(words[2]), time.time()))

    def shutdown(self) -> None:
        """Send SIGTERM: the tool reads no commands."""
        self.terminate()


class KafkaTools(LineProcess):
    """Kafka's own command line tools of one version, in one JVM that runs many commands."""

    def __init__(self, programs: JvmPrograms, version: str) -> None:
        self.version = version
        super().__init__(f"tools-{version}", programs.command(version, "Tools"), programs.folder)

    def run(self, main: str, *arguments: str) -> list[str]:
        """Return what the tool prints. Raises: AssertionError if the tool fails."""
        start = len(self.lines)
        self.tell("\t".join([main, *arguments]))

        def is_over() -> bool:
            return any(line.startswith("-- ") for line in self.lines[start:])

        self.wait_until(is_over, f"the end of {main}")
        *printed, outcome = self.lines[start:]
        assert outcome == "-- done", f"{main} {arguments}: {outcome}\n{self.log_tail()}"
        return [line for line in printed if line.strip()]
