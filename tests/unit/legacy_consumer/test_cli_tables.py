"""How things are written in tables."""

from __future__ import annotations

import pytest

from legacy_consumer.cli.tables import Cell, Column, duration, number, print_table, printable


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "-"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (119_999, "119 s"),
        (120_000, "2 min"),
        (2 * 3_600_000, "2 h"),
        (47 * 3_600_000, "47 h"),
        (48 * 3_600_000, "2 d"),
    ],
)
def test_a_duration_stands_in_the_largest_unit_of_which_there_are_two(ms, text):
    assert duration(ms) == text


def test_what_is_not_known_is_a_dash_and_zero_is_not():
    assert (number(None), number(0), number(-3)) == ("-", "0", "-3")


@pytest.mark.parametrize(
    ("text", "shown"),
    [("g_host-1", "g_host-1"), ("é", "é"), ("a\x1b[31m\nb", "a\\x1b[31m\\nb"), ("\u202e", "\\u202e"), ("[b]", "[b]")],
)
def test_control_characters_are_shown_and_not_obeyed(text, shown):
    assert printable(text) == shown


def test_a_table_in_a_pipe_is_aligned_and_takes_no_text_for_markup(capsys):
    print_table(
        [Column("NAME", folds=True), Column("LAG", is_number=True), Column("OWNER")],
        [["[red]x[/red]" * 20, "5", Cell("-", "red")], ["y :smile:", "1234567", "o"]],
    )
    assert capsys.readouterr().out.splitlines() == [
        f"{'NAME':240}  {'LAG':>7}  OWNER",
        f"{'[red]x[/red]' * 20}  {'5':>7}  -",
        f"{'y :smile:':240}  1234567  o",
    ]
