"""Writes the measurements of a run of these tests as the table in docs/interop.md.

    INTEROP_REPORT=1 .venv/bin/pytest tests/interop

replaces the table, and keeps the text around it.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from pathlib import Path

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "interop.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
VERSIONS = ("0.8.2.2", "0.10.2.2", "1.1.1")

_CLAIMS = {
    "test_members_come_go_and_are_killed_on_either_side": "members come, go and are killed on either side",
    "test_members_that_subscribe_to_different_topics_agree": "members with different subscriptions agree",
    "test_console_consumer_shares_a_group": "the stock console consumer shares a group",
    "test_members_share_a_group_on_the_brokers_of_their_own_version": "the same on brokers of that version",
    "test_group_goes_over_to_python_and_back_without_a_gap_or_a_repeat": "takeover by Python and back, offsets go on",
    "test_nothing_is_lost_while_messages_flow": "nothing lost while messages flow",
    "test_same_member_same_znodes": "znodes byte for byte as the JVM's",
    "test_expired_session_of_a_python_member_is_survived": "expiry of a Python member's session",
    "test_garbage_registration_stops_jvm_members_and_not_ours": "garbage registration: JVM stops, Python goes on",
    "test_verify_consumer_rebalance_finds_the_group_sound": "VerifyConsumerRebalance",
    "test_consumer_offset_checker_shows_offset_lag_and_owner": "ConsumerOffsetChecker",
    "test_consumer_groups_describes_offset_lag_and_member": "ConsumerGroupCommand --describe",
    "test_consumer_groups_lists_the_group": "ConsumerGroupCommand --list",
    "test_export_writes_every_offset": "ExportZkOffsets",
}
_STEPS = {
    "Python joins": "a Python member joins",
    "JVM joins": "a JVM member joins",
    "Python leaves": "a Python member leaves",
    "JVM leaves": "a JVM member leaves",
    "Python is killed": "a Python member was killed and its session has expired",
    "JVM is killed": "a JVM member was killed and its session has expired",
    "a topic comes": "a topic that the filter matches is created",
    "partitions come": "a topic is enlarged",
    "Python's session expires": "a Python member's session expires",
}


class Report:
    """Collects steps and outcomes, under the version of the JVM members that take part."""

    def __init__(self) -> None:
        self._outcomes: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
        self._seconds: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self._produced: Counter[str] = Counter()
        self._consumed: Counter[str] = Counter()
        self._early: Counter[str] = Counter()
        self._late: Counter[str] = Counter()
        self.tests = 0
        self.seconds = 0.0

    def note_test(self, name: str, versions: list[str], outcome: str, seconds: float) -> None:
        self.tests += 1
        self.seconds += seconds
        for version in versions:
            self._outcomes[name][version][outcome] += 1

    def note_group(self, group) -> None:
        versions = {member.kind.removeprefix("console ") for member in group.everybody} & set(VERSIONS)
        if len(versions) == 1:
            (version,) = versions
            if group.judged is not None:
                self._produced[version] += group.judged.produced
                self._consumed[version] += group.judged.consumed
                self._early[version] += len(group.judged.read_too_early)
                self._late[version] += len(group.judged.handed_out_late)
            for step in group.steps:
                self._seconds[step.what][version].append(step.seconds)

    def write(self) -> None:
        text = DOCUMENT.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        DOCUMENT.write_text(f"{before}{BEGIN}\n{self._table()}{END}{after}", encoding="utf-8")

    def _table(self) -> str:
        head = f"| | {' | '.join(VERSIONS)} |\n|---|{'---|' * len(VERSIONS)}\n"
        rows = [
            self._row(claim, [self._shown(name, version) for version in VERSIONS]) for name, claim in _CLAIMS.items()
        ]
        settled = [
            self._row(f"settled after {words}", [self._time(what, version) for version in VERSIONS])
            for what, words in _STEPS.items()
        ]
        counts = self._row("messages produced", [str(self._produced[version]) for version in VERSIONS])
        counts += self._row("of these handed out", [str(self._consumed[version]) for version in VERSIONS])
        counts += self._row(
            "of these twice, since a JVM member reads the offset before it claims the partition",
            [str(self._early[version]) for version in VERSIONS],
        )
        counts += self._row(
            "of these twice, since a JVM member hands messages out after its last commit",
            [str(self._late[version]) for version in VERSIONS],
        )
        took = f"{self.tests} tests in {self.seconds:.0f} s. In the second table: median, longest, and how many.\n\n"
        return took + head + "".join(rows) + counts + f"\n{head}" + "".join(settled)

    def _row(self, words: str, cells: list[str]) -> str:
        return f"| {words} | {' | '.join(cells)} |\n"

    def _shown(self, name: str, version: str) -> str:
        outcomes = self._outcomes[name][version]
        return ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())) or "no such case"

    def _time(self, what: str, version: str) -> str:
        seconds = self._seconds[what][version]
        if not seconds:
            return "-"
        return f"{statistics.median(seconds):.2f} s, {max(seconds):.2f} s ({len(seconds)})"
