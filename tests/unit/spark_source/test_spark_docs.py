from pathlib import Path

import pytest

from spark_source.offsets import COLUMNS
from spark_source.options import OPTIONS

DOCS = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")


def table(heading: str) -> list[list[str]]:
    """The rows of the first table of a section."""
    section = DOCS.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_the_documented_options_are_the_options():
    assert table("Options") == [[f"`{o.name}`", o.default_text, o.meaning] for o in OPTIONS]


def test_the_documented_columns_are_the_columns():
    assert table("Columns") == [[f"`{c.name}`", c.type.value, c.meaning] for c in COLUMNS]


@pytest.mark.parametrize("line", [line for line in DOCS.splitlines() if line.startswith("spark.read")])
def test_a_documented_schema_can_be_had(line):
    from spark_source.offsets import request_columns

    fields = [field.split() for field in line.split('.schema("')[1].split('")')[0].split(", ")]
    assert request_columns((name, kind, True) for name, kind in fields)
