"""Whatever docs/guarantees.md names as proof is there: tests, files, mutants, and the words of the checkers."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
TABLES = [
    [[cell.strip() for cell in line.strip("|").split(" | ")] for line in block.splitlines()]
    for block in re.findall(r"(?m)(?:^\|.+\n)+", TEXT)
]
ROWS = [row for table in TABLES for row in table[2:]]
MUTANTS = {path.stem for path in (ROOT / "tests" / "simulation" / "mutants").glob("*.patch")}


def all_tests():
    return {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"(?m)^def (test_\w+)\(", path.read_text(encoding="utf-8"))
    }


def all_checks():
    """Words that a failing seed or a chaos run prints."""
    simulation = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "simulation").glob("*.py"))
    return set(re.findall(r'Violation\(\s*"([^"]+)"', simulation))


TESTS, CHECKS = all_tests(), all_checks()


def is_there(name):
    if name.startswith("tests/"):
        return (ROOT / name).is_file()
    return name in TESTS or name in MUTANTS or name in CHECKS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:50])
def test_every_promise_names_what_would_fail_if_it_were_broken_and_that_is_there(row):
    assert len(row) == 3
    proof = re.findall(r"`([^`]+)`", row[2])
    assert proof, "no test is named"
    assert [name for name in proof if not is_there(name)] == []


def test_promises_are_found_in_the_text():
    assert len(TABLES) == 4
    assert len(ROWS) > 35
    assert not is_there("test_of_nothing")
    assert not is_there("no-such-mutant")


def test_every_mutant_breaks_a_promise_that_is_written_down():
    assert MUTANTS - {name for row in ROWS for name in re.findall(r"`([^`]+)`", row[-1])} == set()
