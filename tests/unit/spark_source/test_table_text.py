"""The table of `python -m spark_source` shows texts of other clients literally, not as markup."""

from __future__ import annotations

import signal
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.sql import Row

from legacy_consumer.operations.cli.helpers import tables
from spark_source import __main__ as command
from spark_source.__main__ import print_table
from spark_source.offsets import COLUMNS


def test_owners_and_errors_are_shown_as_they_stand(capsys):
    owner = "[red]own[/red][/]x\x1b]0;title\x07-0"
    row = defaultdict(lambda: None, group="g", topic="t", partition=0, owner=owner, error="bad \x1b[31m[/]\nline")
    print_table([row])
    shown = capsys.readouterr().out
    assert "[red]own[/red][/]x\\x1b]0;title\\x07-0" in shown
    assert "g t/0: bad \\x1b[31m[/]\\nline" in shown
    assert "\x1b" not in shown


def test_a_narrow_terminal_shows_every_digit(monkeypatch, capsys):
    monkeypatch.setattr(tables, "is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", "80")
    row = defaultdict(lambda: None, group="billing", topic="flights", partition=0, committed_offset=1234567)
    print_table([row | {"owner": "billing_host-1795826293402-827d6c45-0", "log_end": 1234999, "lag": 432}])
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("1234567", "1234999", "432"))
    assert "…" not in shown


def test_a_pipe_gets_whole_names(capsys):
    print_table([defaultdict(lambda: None, group="g" * 200, topic="flights", partition=0, lag=432)])
    assert capsys.readouterr().out.splitlines()[1].split() == ["g" * 200, "flights", "0", "432"]


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_an_output_that_cannot_be_written_is_an_error_of_one_line(form, monkeypatch, capsys):
    row = {column.name: None for column in COLUMNS} | {"group": "g", "topic": "t", "partition": 0}
    monkeypatch.setattr(command, "_read", lambda _: [Row(**row)])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as ended:
            command.main(["--zookeeper", "h:1", "--group", "g", *form])
    assert ended.value.code == 1
    assert capsys.readouterr().err == "error: cannot write: No space left on device\n"
