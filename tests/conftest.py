"""Runs the tests in tiers: quick tests first, then tests with servers that this machine can start.

`pytest` alone runs quick tests that need no server; a path, a marker expression or --all-tiers selects others. A test
that cannot run is skipped with the reason. With CI set, such a skip fails the run, because CI must be able to run all.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import hypothesis
import hypothesis.configuration
import pytest

from legacy_consumer.errors import JarsUnavailableError, JavaMissingError
from tests.support import leaks
from tests.support.created_topics import no_topic_but_those_of_tests
from tests.support.jvm_member import JvmPrograms
from tests.support.tiers import (
    DECODER,
    MARKERS_OF_TIER,
    QUICK_TIERS,
    SERVER_MARKERS,
    TIERS,
    CannotRunError,
    TierResult,
    decoder_problem,
    problem_of,
    tier_of,
)

TESTS = Path(__file__).parent
IN_CI = bool(os.environ.get("CI"))

# no deadline: the time to generate an example depends on how busy the machine is
hypothesis.settings.register_profile(
    "developer", deadline=None, database=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("ci", hypothesis.settings.get_profile("developer"), derandomize=True)

tier_key = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def programs() -> Generator[JvmPrograms]:
    """The Java programs of all tiers, compiled once: a compiler takes as long as the start of a broker."""
    with tempfile.TemporaryDirectory(prefix="jvm-programs-") as folder:
        yield JvmPrograms(Path(folder))


@pytest.fixture(scope="session", autouse=True)
def _only_topics_of_tests() -> Generator[None]:
    """Check, when each cluster closes, in any tier, that no read has created a topic."""
    with no_topic_but_those_of_tests():
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-tiers", action="store_true", help="run every tier that this machine can run")
    parser.addoption("--long", action="store_true", help="with --all-tiers: also what shows a claim at more length")


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile("ci" if IN_CI else "developer")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # a shell ignores SIGINT in background processes, and the programs under test would inherit that
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Spark takes the interpreter of its Python workers, and its address, from the environment
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    config.pluginmanager.register(TierRun(config), "tiers")


class TierRun:
    """One test run: the tier of each test, the reasons of skips, the results, and the leftovers."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.results: dict[str, TierResult] = defaultdict(TierResult)
        self.not_selected = 0
        self.not_long = 0
        self.unavailable: dict[str, str] = {}
        """{marker: why its servers are not available}, once a test has found out."""
        self.left: list[str] = []
        self.mark = uuid.uuid4().hex
        os.environ[leaks.MARK] = self.mark
        # One folder for all temporary files: the run reports files that a test has left, and deletes them.
        self.folder = Path(tempfile.mkdtemp(prefix="legacy-consumer-tests-"))
        os.environ["TMPDIR"] = str(self.folder)
        tempfile.tempdir = None
        hypothesis.configuration.set_hypothesis_home_dir(self.folder / "hypothesis")
        if config.option.basetemp is None:
            config.option.basetemp = str(self.folder / "pytest")

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Skip a file whose tests need the native decoder if the decoder is not built."""
        report = yield
        if not report.passed and DECODER in str(report.longrepr) and (problem := decoder_problem()):
            self.results[tier_of(collector.path, TESTS)].missing[problem] += 1
            report.outcome, report.longrepr = "skipped", (str(collector.path), 0, f"Skipped: {problem}")
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            item.stash[tier_key] = tier = tier_of(item.path, TESTS)
            for marker in MARKERS_OF_TIER.get(tier, ()):
                item.add_marker(marker)
        items.sort(key=lambda item: TIERS.index(item.stash[tier_key]))
        if self._is_plain_run():
            wanted = [item for item in items if not markers_of(item, SERVER_MARKERS | {"slow"})]
            self.not_selected = len(items) - len(wanted)
            items[:] = wanted
        elif self.config.option.all_tiers and not self.config.option.long:
            wanted = [item for item in items if item.get_closest_marker("long") is None]
            self.not_long = len(items) - len(wanted)
            items[:] = wanted

    def _is_plain_run(self) -> bool:
        named = self.config.args_source is pytest.Config.ArgsSource.ARGS
        return not (named or self.config.option.all_tiers or self.config.option.markexpr)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None]:
        markers = markers_of(item, SERVER_MARKERS)
        known = next((self.unavailable[marker] for marker in sorted(markers) if marker in self.unavailable), None)
        if problem := known or problem_of(markers):
            self._skip(item, problem)
        try:
            return (yield)
        except (JarsUnavailableError, JavaMissingError) as error:
            self.unavailable.update(dict.fromkeys(markers & {"kafka", "interop"} or markers, str(error)))
            self._skip(item, str(error))
        except CannotRunError as error:
            self._skip(item, str(error))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        try:
            return (yield)
        except Exception as error:
            if DECODER in str(error) and (problem := decoder_problem()):
                self._skip(item, problem)
            raise

    def _skip(self, item: pytest.Item, reason: str) -> None:
        self.results[item.stash[tier_key]].missing[reason] += 1
        pytest.skip(reason)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        result = self.results[item.stash[tier_key]]
        result.seconds += report.duration
        if hasattr(report, "wasxfail"):
            result.outcomes["xfailed"] += report.skipped
        elif report.when == "call" or not report.passed:
            result.outcomes["error" if report.failed and report.when != "call" else report.outcome] += 1
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, bool, bool]:
        done = yield
        if nextitem is not None and nextitem.stash[tier_key] not in QUICK_TIERS and self.config.option.all_tiers:
            failed = [tier for tier in TIERS if tier in QUICK_TIERS and self._failures(tier)]
            if failed:
                item.session.shouldfail = f"{' and '.join(failed)} failed, so no server was started"
        return done

    def _failures(self, tier: str) -> int:
        outcomes = self.results[tier].outcomes if tier in self.results else {}
        return outcomes.get("failed", 0) + outcomes.get("error", 0)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        leaks.end_spark()
        self.left += [f"process {process}" for process in leaks.processes_left(self.mark)]
        self.left += [f"listening port {port} of the test process" for port in leaks.ports_left()]
        kept = {"pytest", "hypothesis"}
        self.left += [f"temporary {path.name}" for path in sorted(self.folder.iterdir()) if path.name not in kept]
        if session.exitstatus == pytest.ExitCode.OK and (self.left or self._skipped_in_ci()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _skipped_in_ci(self) -> list[str]:
        return [tier for tier in TIERS if IN_CI and tier in self.results and self.results[tier].missing]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        write = terminalreporter.write_line
        terminalreporter.ensure_newline()
        terminalreporter.section("tiers")
        for tier in TIERS:
            if tier in self.results:
                write(self.results[tier].line(tier))
        if self.not_selected:
            write(f"{self.not_selected} tests need servers or time and were left out: `make test` runs them")
        if self.not_long:
            write(f"{self.not_long} tests show a claim at more length and were left out: `make test-long` runs them")
        for tier in self._skipped_in_ci():
            write(
                f"FAILED: with CI set every tier must run, and {tier} could not: see the reason above",
                red=True,
            )
        for what in self.left:
            write(f"FAILED: the tests left behind: {what}", red=True)

    def pytest_unconfigure(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        os.environ.pop(leaks.MARK, None)


def markers_of(item: pytest.Item, among: frozenset[str]) -> set[str]:
    return {marker.name for marker in item.iter_markers()} & among
