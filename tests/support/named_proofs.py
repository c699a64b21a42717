"""The proofs that documents name: tests, test files, mutants, and words that checkers print."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MUTANTS = {path.stem for path in (ROOT / "tests" / "simulation" / "mutants").glob("*.patch")}
TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"(?m)^def (test_\w+)\(", path.read_text(encoding="utf-8"))
}
CHECKS = {
    word
    for path in (ROOT / "tests" / "simulation").glob("*.py")
    for word in re.findall(r'Violation\(\s*"([^"]+)"', path.read_text(encoding="utf-8"))
}
"""Words that a failing seed or a chaos run prints."""


def text_of(name: str) -> str:
    """Return the text of a page of docs/."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def tables_of(text: str) -> list[list[list[str]]]:
    """Return the rows of each table, without its head."""
    blocks = re.findall(r"(?m)(?:^\|.+\n)+", text)
    return [
        [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in block.splitlines()[2:]]
        for block in blocks
    ]


def proofs_of(text: str) -> list[str]:
    """Return all names in backticks."""
    return re.findall(r"`([^`]+)`", text)


def is_there(name: str) -> bool:
    """Return whether there is such a test, file, mutant or word."""
    if name.startswith("tests/"):
        return (ROOT / name).is_file()
    return name in TESTS or name in MUTANTS or name in CHECKS
