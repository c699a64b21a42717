import re
from pathlib import Path

from spark_source.offsets import COLUMNS, needed_log_ends, request_columns
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


def test_the_documented_schema_can_be_had():
    [ddl] = re.findall(r'\.schema\("(.*)"\)', DOCS)
    requested = request_columns((*field.split(), True) for field in ddl.split(", "))
    assert needed_log_ends(requested) == frozenset()
