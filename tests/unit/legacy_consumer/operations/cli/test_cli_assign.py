from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from legacy_consumer.operations.cli.assign import assign


def member(subscription, pattern="static"):
    return {"version": 1, "subscription": subscription, "pattern": pattern, "timestamp": "1400000000000"}


def run(*cases, args=()):
    lines = "".join(case if isinstance(case, str) else json.dumps(case) + "\n" for case in cases)
    return CliRunner().invoke(assign, list(args), input=lines)


TWELVE = {
    "case": 7,
    "topics": {"topic-1": 12},
    "members": {"g_a": member({"topic-1": 1}), "g_b": member({"topic-1": 1})},
}
UNEQUAL = {"topics": {"t": 2, "u": 1}, "members": {"g_a": member({"t": 1, "u": 1}), "g_b": member({"t": 1})}}


def test_each_case_gets_one_line():
    result = run(TWELVE, UNEQUAL)
    assert result.exit_code == 0
    first, second = map(json.loads, result.stdout.splitlines())
    assert [p for p, thread in first.items() if thread == "g_a-0"] == [f"topic-1/{n}" for n in range(6)]
    assert second == {"t/0": "g_a-0", "t/1": "g_b-0", "u/0": "g_a-0"}


@pytest.mark.parametrize(("dialect", "owner"), [("0.8.2", "g_a-0"), ("0.10.2", "g_a-0"), ("1.0", "g_b-0")])
def test_the_dialect_orders_the_round(dialect, owner):
    case = dict(TWELVE, topics={"topic-1": 11})
    answer = json.loads(run(case, args=["--strategy", "roundrobin", "--dialect", dialect]).stdout)
    assert answer["topic-1/0"] == owner


def test_a_refusal_is_an_answer_and_the_next_case_is_answered_too():
    result = run(UNEQUAL, TWELVE, args=["--strategy", "roundrobin", "--dialect", "0.8.2", "--json"])
    assert result.exit_code == 0
    refused, answered = map(json.loads, result.stdout.splitlines())
    assert refused["error"].startswith("roundrobin as of 0.8.2 refuses this group: all members must subscribe")
    assert len(answered) == 12


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"version": 1, "subscription": {"topic-1": 1}}, "pattern"),
        ("topic-1", "a registration is a JSON object"),
        (member({"(": 1}, "white_list"), "unclosed group"),
        (member({"topic-1": 0}), "below 1"),
    ],
)
def test_an_unreadable_member_is_left_out_and_named(bad, reason):
    case = {"topics": {"topic-1": 2}, "members": {"g_a": member({"topic-1": 1}), "g_bad": bad}}
    result = run(case)
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"topic-1/0": "g_a-0", "topic-1/1": "g_a-0"}
    assert result.stderr.startswith("Warning: line 1: member g_bad is left out: ")
    assert reason in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense\n", "not JSON"),
        ("\n", "not JSON"),
        ("[" * 100000 + "\n", "not JSON"),
        ("[1]\n", "a case must be a JSON object, it is [1]"),
        ('{"topics": {}}\n', '"members" is missing: give a JSON object'),
        ('{"topics": [], "members": {}}\n', '"topics" must be a JSON object, it is []'),
        (
            '{"topics": {"t": "3"}, "members": {}}\n',
            'topic t must have a number of partitions from 0 to 1000000, not "3"',
        ),
        ('{"topics": {"t": -1}, "members": {}}\n', "not -1"),
        ('{"topics": {"t": true}, "members": {}}\n', "not true"),
    ],
)
def test_a_line_that_is_no_case_ends_the_command_after_the_answers_before_it(line, reason):
    result = run(TWELVE, line, TWELVE)
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 1
    assert result.stderr.startswith("Error: line 2: ")
    assert reason in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_help_ends_with_an_example_that_runs():
    text = CliRunner().invoke(assign, ["--help"], terminal_width=400).stdout
    example = text.split("Example:\n")[1].split("Options:")[0].strip()
    echo, _, command = example.partition(" | legacy-consumer assign ")
    result = run(echo.removeprefix("echo '").removesuffix("'") + "\n", args=command.split())
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"t/0": "g_c1-0", "t/1": "g_c1-0", "t/2": "g_c1-0"}


def test_an_answer_comes_before_the_next_case_is_given():
    with subprocess.Popen(
        [sys.executable, "-c", "from legacy_consumer.operations.cli.assign import assign; assign()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        for _ in range(2):
            process.stdin.write(json.dumps(TWELVE) + "\n")
            process.stdin.flush()
            assert len(json.loads(process.stdout.readline())) == 12
        process.stdin.close()
        assert process.wait() == 0
