"""Log lines for programs: each is a JSON object that names its member."""

from __future__ import annotations

import json
import logging
import sys
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from legacy_consumer.json_logs import JsonLogFormatter
from legacy_consumer.operations.cli import main
from legacy_consumer.operations.cli.helpers import logs


def member(consumer_id, group="g"):
    return SimpleNamespace(consumer_id=consumer_id, config=SimpleNamespace(group_id=group))


def record(message, *args, **more):
    made = logging.LogRecord("rebalance.coordinator", logging.INFO, "f", 1, message, args, more.pop("exc_info", None))
    vars(made).update(more)
    return made


def line(formatter, made):
    text = formatter.format(made)
    assert "\n" not in text
    return json.loads(text)


def test_a_line_says_when_how_bad_where_who_and_what():
    found = line(JsonLogFormatter([member("g_a")]), record("%s: joins group %s", "g_a", "g", created=1.5))
    assert found == {
        "time": "1970-01-01T00:00:01.500Z",
        "level": "INFO",
        "logger": "rebalance.coordinator",
        "group": "g",
        "consumer_id": "g_a",
        "message": "g_a: joins group g",
    }


def test_of_several_members_the_one_that_the_line_or_its_thread_names_is_taken():
    formatter = JsonLogFormatter([member("g_a"), member("h_b", "h")])
    assert line(formatter, record("h_b: settled"))["group"] == "h"
    assert line(formatter, record("anything", threadName="g_a-coordinator"))["consumer_id"] == "g_a"
    assert line(formatter, record("anything", threadName="MainThread"))["group"] is None
    assert line(formatter, record("anything", group="x", consumer_id="x_y"))["consumer_id"] == "x_y"


def test_the_only_member_of_a_process_is_whom_every_line_is_of():
    assert line(JsonLogFormatter([member("g_a")]), record("session 0x1: connected"))["consumer_id"] == "g_a"


def test_an_exception_stays_on_the_line():
    try:
        raise ValueError("two\nlines")
    except ValueError:
        found = line(JsonLogFormatter(), record("failed", exc_info=sys.exc_info()))
    assert found["error"] == "ValueError: two\nlines"
    assert "Traceback" in found["traceback"]


@pytest.fixture
def _logging_as_before():
    root, kazoo = logging.getLogger(), logging.getLogger("kazoo")
    before = root.level, kazoo.level, list(root.handlers)
    root.handlers[:] = []
    yield
    root.setLevel(before[0])
    kazoo.setLevel(before[1])
    root.handlers[:] = before[2]


@pytest.mark.usefixtures("_logging_as_before")
def test_log_format_is_taken_before_and_behind_the_commands_name(capsys):
    for arguments in (["--log-format", "json", "groups", "list"], ["groups", "list", "--log-format", "json"]):
        logging.getLogger().handlers[:] = []
        CliRunner().invoke(main, arguments)
        logs.set_up_logging(0)
        logs.name_member(member("g_a"))
        logging.getLogger("x").warning("look")
        shown = [json.loads(text) for text in capsys.readouterr().err.splitlines() if text.startswith("{")]
        assert [(one["message"], one["consumer_id"]) for one in shown if one["logger"] == "x"] == [("look", "g_a")]
    refused = CliRunner().invoke(main, ["groups", "list", "--log-format", "xml"])
    assert refused.exit_code == 2


def test_a_line_names_the_id_that_a_member_has_now():
    """unsubscribe() gives a connector another consumer id."""
    one = member("g_a")
    formatter = JsonLogFormatter([one])
    one.consumer_id = "g_b"
    assert line(formatter, record("session 0x1: connected"))["consumer_id"] == "g_b"
