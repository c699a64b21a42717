"""Text for people: a terminal and a log show whatever other clients wrote, and no control character takes effect."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legacy_consumer.json_logs import JsonLogFormatter
from legacy_consumer.operations.cli.helpers import logs
from zk_layout.plain_text import printable, printable_lines

STRANGE = "\x1b[2Jhi\r\n12:00:00 ERROR forged\u202egnp\x9b1m\x7f\u2028end"


@given(st.text())
def test_a_line_is_one_line_of_printable_characters(text):
    assert printable(text).isprintable()
    assert printable_lines(text).replace("\n", "").replace("\t", "").isprintable()


@given(st.text(st.characters(exclude_categories=["C", "Z"])))
def test_printable_text_is_unchanged(text):
    assert printable(text) == text


def record_of(failing):
    try:
        raise ValueError(STRANGE)
    except ValueError as error:
        return logging.LogRecord(
            "n", logging.WARNING, "p", 1, "from %s", (STRANGE,), (ValueError, error, None) if failing else None
        )


@pytest.mark.parametrize("verbosity", [0, 2])
@pytest.mark.parametrize("failing", [False, True])
def test_a_log_line_is_obeyed_by_no_terminal_and_forges_no_other(verbosity, failing):
    handler = logging.getLogger().handlers[:]
    level, kazoo = logging.getLogger().level, logging.getLogger("kazoo").level
    try:
        logging.getLogger().handlers[:] = []
        logs.set_up_logging(verbosity)
        [ours] = logging.getLogger().handlers
        first, *rest = ours.formatter.format(record_of(failing)).split("\n")
    finally:
        logging.getLogger().handlers[:] = handler
        logging.getLogger().setLevel(level)
        logging.getLogger("kazoo").setLevel(kazoo)
    assert all(map(str.isprintable, [first, *rest]))
    assert all(line.startswith("    ") for line in rest)
    assert bool(rest) == (failing and verbosity == 2)


def test_a_json_log_line_is_ascii():
    line = JsonLogFormatter().format(record_of(failing=True))
    assert line.isascii()
    assert line.isprintable()


def test_a_log_line_shows_a_bounded_part_of_a_name_and_keeps_its_end():
    record = logging.LogRecord("n", logging.WARNING, "p", 1, "group %s: restart it", ("x" * 40_000,), None)
    for formatter in (JsonLogFormatter(), logs._OneLine(with_details=False)):
        line = formatter.format(record)
        assert len(line) < 1200
        assert "group xxx" in line
        assert "restart it" in line
