"""The table of `python -m spark_source` shows what others wrote and takes none of it for markup."""

from __future__ import annotations

from collections import defaultdict

from spark_source.__main__ import print_table


def test_owners_and_errors_are_shown_as_they_stand(capsys):
    owner = "[red]own[/red][/]x\x1b]0;title\x07-0"
    row = defaultdict(lambda: None, group="g", topic="t", partition=0, owner=owner, error="bad \x1b[31m[/]\nline")
    print_table([row])
    shown = capsys.readouterr().out
    assert "[red]own[/red][/]x\\x1b]0;title\\x07-0" in shown
    assert "g t/0: bad \\x1b[31m[/]\\nline" in shown
    assert "\x1b" not in shown
