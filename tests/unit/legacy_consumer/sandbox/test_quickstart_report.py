"""The report fails when one of its claims does not hold, and the screens show the present state."""

import dataclasses
import json
from io import StringIO

import pytest
from rich.console import Console

from legacy_consumer.sandbox.quickstart.observer import expected_owners
from legacy_consumer.sandbox.quickstart.proof import Verdict
from legacy_consumer.sandbox.quickstart.report import Happening, Report, Settling, Takeover
from legacy_consumer.sandbox.quickstart.screen import PartitionView, PlainScreen, View, draw, print_summary
from legacy_consumer.sandbox.quickstart.two_groups import TwoGroups

VERDICT = Verdict(10, 10, 0, 2, 12, 2, {"member-1": 12}, (), ())
ROWS = ({"partition": 0, "committed_offset": 6, "lag": 0}, {"partition": 1, "committed_offset": 4, "lag": 0})
REPORT = Report(
    verdict=VERDICT,
    members_most=4,
    idle=("member-4",),
    timeline=(Happening(1.5, "joined", "member-1", 1, {0: "member-1", 1: "member-1"}),),
    rebalances=(
        Settling("member-1 joined", 1, 2, 20.0),
        Settling("member-2 joined", 2, 1, 40.0),
        Settling("member-4 joined", 4, 0, 0.0),
    ),
    kill=Takeover("member-3", (1,), {1: "member-4"}, 4.0, 3.9, 3.95, 4.0),
    two_groups=TwoGroups(
        {
            "group1": {"group1-1": ("2", "1", "3")},
            "group2": {"group2-1": ("1",), "group2-2": ("2",), "group2-3": ("3",)},
        }
    ),
    offsets=ROWS,
    log_ends={0: 6, 1: 4},
    seconds=42.0,
)


def printed(show):
    console = Console(file=StringIO(), width=100, force_terminal=False)
    show(console)
    return console.file.getvalue()


def changed(**what):
    return dataclasses.replace(REPORT, **what)


def test_a_good_run_has_no_failures():
    assert REPORT.failures == ()
    assert REPORT.lag == 0


@pytest.mark.parametrize(
    ("report", "complaint"),
    [
        (changed(verdict=dataclasses.replace(VERDICT, delivered=9, lost=1)), "1 of 10 flights were never delivered"),
        (changed(verdict=dataclasses.replace(VERDICT, contradictions=("x",))), "the records contradict: x"),
        (
            changed(two_groups=TwoGroups({"group1": {"group1-1": ("1", "2")}})),
            "group1 did not get each message of letters once",
        ),
        (
            changed(two_groups=TwoGroups({"group2": {"group2-1": ("1", "2"), "group2-2": ("3",)}})),
            "the members of group2 did not share letters evenly",
        ),
        (changed(idle=()), "with 4 members 0 were idle"),
        (changed(offsets=({**ROWS[0], "lag": 3}, ROWS[1])), "a lag of 3"),
        (changed(offsets=({**ROWS[0], "lag": None}, ROWS[1])), "a lag of None"),
        (changed(offsets=ROWS[:1]), "Spark read the committed offsets {0: 6}"),
        (changed(offsets=()), "Spark read the committed offsets {}"),
        (changed(offsets=({**ROWS[0], "committed_offset": 5}, ROWS[1])), "{0: 5, 1: 4}, the log ends at {0: 6, 1: 4}"),
    ],
)
def test_a_claim_that_does_not_hold_is_a_failure_and_is_shown(report, complaint):
    assert any(complaint in failure for failure in report.failures)
    assert "FAILED" in printed(lambda console: print_summary(console, report))


def test_rebalances_that_moved_nothing_do_not_flatter_the_median():
    assert REPORT.median_settle_ms == 30.0


def test_the_json_has_the_values_of_the_table():
    told = json.loads(json.dumps(REPORT.as_json()))
    assert (told["flights"], told["delivered"], told["lost"], told["duplicated"]) == (10, 10, 0, 2)
    assert told["timeline"][0]["owners"] == {"0": "member-1", "1": "member-1"}
    assert told["kill_to_takeover_seconds"] == 4.0
    assert told["rebalances"][1] == {"cause": "member-2 joined", "members": 2, "moved": 1, "settle_ms": 40.0}
    assert told["offsets"] == list(ROWS)
    assert told["two_groups"]["group2"] == {"group2-1": ["1"], "group2-2": ["2"], "group2-3": ["3"]}


def test_the_summary_fits_a_terminal_of_a_hundred_columns():
    text = printed(lambda console: print_summary(console, REPORT))
    assert max(map(len, text.splitlines())) <= 100
    assert "lost" in text
    assert "member-4 idle" in text


def test_duplicates_that_the_kill_does_not_explain_are_named():
    more = changed(verdict=dataclasses.replace(VERDICT, duplicated=5))
    assert "3 in other rebalances" in " ".join(printed(lambda console: print_summary(console, more)).split())


def test_a_line_is_one_line_however_narrow_the_output():
    console = Console(file=StringIO(), width=20, force_terminal=False)
    PlainScreen(console).say(3.14, "member-1 joined [and this is no markup] and so on")
    assert console.file.getvalue() == "   3.1 s  member-1 joined [and this is no markup] and so on\n"


def test_the_live_part_names_owners_and_orphans():
    view = View(
        seconds=1.0,
        doing="member-2 joins",
        partitions=(PartitionView(0, "member-1", 1234, 1000, 5000), PartitionView(1, None, 0, 0, 0)),
        members={"member-1": "process 7, 1,234 flights"},
    )
    text = printed(lambda console: console.print(draw(view)))
    for word in ("member-2 joins", "1,234", "5,000", "1,000", "nobody", "process 7"):
        assert word in text


def test_with_four_members_and_three_partitions_the_range_assignor_leaves_one_idle():
    assert expected_owners(["b", "a"]) == {0: "a", 1: "a", 2: "b"}
    assert expected_owners(["d", "c", "b", "a"]) == {0: "a", 1: "b", 2: "c"}
