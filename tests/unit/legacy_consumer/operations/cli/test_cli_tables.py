"""The cells and widths of tables."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from legacy_consumer.operations.cli.helpers.elided import telling_length
from legacy_consumer.operations.cli.helpers.tables import Cell, Column, drawn_table, duration, number, print_table
from zk_layout.plain_text import printable


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


def test_an_unknown_value_is_a_dash_and_zero_is_not():
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


def test_a_name_of_any_length_widens_no_table_for_long(capsys):
    """Any client may create a group of 40,000 characters: earlier, each group's row was as wide, 60 MB for 1,500."""
    print_table([Column("GROUP", folds=True), Column("LAG", is_number=True)], [["x" * 40_000, "5"], ["g", "7"]])
    assert [len(line) for line in capsys.readouterr().out.splitlines()] == [1008] * 3


def drawn(width, owners):
    """Return the words of each row of a table of topic and owner, as a terminal of this width shows them."""
    console = Console(width=width, color_system=None, file=io.StringIO())
    columns = [Column("TOPIC", folds=True), Column("OWNER", folds=True)]
    console.print(drawn_table(columns, [["a-topic", Cell(owner, elides=True)] for owner in owners]))
    return [line.split() for line in console.file.getvalue().splitlines()[2:]]


def test_an_owner_gives_way_from_the_left_as_long_as_its_end_tells_it_from_the_others():
    owners = ["g_host-1795298116695-87bb4124-0", "g_host-1795298116699-746ff1f6-10"]
    assert drawn(50, owners) == [["a-topic", owner] for owner in owners]
    assert drawn(24, owners) == [["a-topic", "…695-87bb4124-0"], ["a-topic", "…99-746ff1f6-10"]]


def test_an_owner_whose_end_tells_nothing_is_folded_and_whole():
    owners = ["g_first-of-the-members-0", "g_other-of-the-members-0"]
    rows = drawn(24, owners)
    assert ["".join(row[-1] for row in part) for part in (rows[:2], rows[2:])] == owners


def test_shortened_names_keep_enough_of_their_ends_to_differ():
    assert telling_length([]) == 0
    assert telling_length(["a-0"]) == 3
    assert telling_length(["host-12345678-0", "host-12345678-0"]) == 8
    assert telling_length(["host-a-12345678-0", "host-b-12345678-0"]) == len("a-12345678-0")
    assert telling_length(["0", "a-0", "b-a-0"]) == 5


def test_a_table_for_a_file_is_aligned_by_the_cells_that_characters_take(capsys):
    columns = [Column("NAME", folds=True), Column("LAG", is_number=True), Column("OWNER")]
    print_table(columns, [["漢字", "7", Cell("-", "red")], ["a", "12345", "m-0"]])
    assert capsys.readouterr().out == "NAME    LAG  OWNER\n漢字      7  -\na     12345  m-0\n"
