import re
from pathlib import Path

import pytest

from spark_source import options
from spark_source.messages import options as messages
from spark_source.messages.columns import COLUMNS as MESSAGE_COLUMNS
from spark_source.messages.columns import request_message_columns
from spark_source.messages.kafka_options import KAFKA_SOURCE_OPTIONS
from spark_source.offsets import COLUMNS, needed_facts, request_columns
from spark_source.option_names import CLUSTER_OPTIONS, RDKAFKA_OPTION
from spark_source.segments.options import OPTIONS as SEGMENT_OPTIONS
from tests.support.named_proofs import is_there, proofs_of, tables_of

DOCS = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")


def table(heading: str) -> list[list[str]]:
    """Return the rows of all tables of a section."""
    section = re.split(r"\n##? ", DOCS.split(f"\n## {heading}\n", 1)[1], maxsplit=1)[0]
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in row] for row in rows]


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Options of zk_offsets", options.OWN_OPTIONS),
        ("Writing offsets", options.WRITE_OPTIONS),
        ("Options of zk_messages", (*messages.READ_OPTIONS, *messages.STREAM_OPTIONS, *messages.FETCH_OPTIONS)),
        ("Options of kafka_segments", SEGMENT_OPTIONS),
        ("Options for the cluster", (*CLUSTER_OPTIONS, RDKAFKA_OPTION)),
    ],
)
def test_the_documented_options_are_the_options(heading, expected):
    assert table(heading) == [[f"`{o.name}`", o.default_text, o.meaning] for o in expected]


def test_no_option_is_left_out_of_the_documented_tables():
    assert {*options.OPTIONS} == {*options.OWN_OPTIONS, *CLUSTER_OPTIONS, RDKAFKA_OPTION}
    assert {*messages.OPTIONS} == {
        *messages.READ_OPTIONS,
        *messages.STREAM_OPTIONS,
        *messages.FETCH_OPTIONS,
        *CLUSTER_OPTIONS,
        RDKAFKA_OPTION,
    }


def test_errors_name_the_documented_way_from_sparks_kafka_source():
    assert table("Coming from Spark's Kafka source") == [[f"`{n}`", why] for n, why in KAFKA_SOURCE_OPTIONS.items()]


@pytest.mark.parametrize(
    ("heading", "columns"), [("Columns of zk_offsets", COLUMNS), ("Columns of zk_messages", MESSAGE_COLUMNS)]
)
def test_the_documented_columns_are_the_columns(heading, columns):
    assert table(heading) == [[f"`{c.name}`", c.type.value, c.meaning] for c in columns]


def test_the_documented_schema_can_be_had():
    offsets, values = re.findall(r'\.schema\("(.*)"\)', DOCS)
    requested = request_columns((*field.split(), True) for field in offsets.split(", "))
    assert needed_facts(requested) == frozenset()
    assert request_message_columns((*field.split(), True) for field in values.split(", "))


PROMISES = tables_of(DOCS.split("\n# What shows it\n")[1])[0]


@pytest.mark.parametrize("row", PROMISES, ids=lambda row: row[1][:50])
def test_every_promise_names_tests_that_are_there(row):
    assert len(row) == 3
    assert proofs_of(row[2])
    assert [name for name in proofs_of(row[2]) if not is_there(name)] == []


def test_every_section_that_promises_something_stands_in_the_table():
    code = re.compile(r"(?ms)^```.*?^```")
    headings = re.findall(r"(?m)^##? (.+)$", code.sub("", DOCS))
    # the first three only hold other sections; another test compares the tables of these options with the code
    left_out = {"zk_offsets", "zk_messages", "kafka_segments", "The cluster, and errors", "What shows it"}
    left_out |= {"Options of zk_messages", "Options of kafka_segments"}
    assert [name for name in headings if name not in left_out] == list(dict.fromkeys(row[0] for row in PROMISES))
