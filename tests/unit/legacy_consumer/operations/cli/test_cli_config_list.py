"""`legacy-consumer config list`."""

from __future__ import annotations

import csv
import io
import json

import pytest
from click.testing import CliRunner

from legacy_consumer.config import PROPERTIES
from legacy_consumer.operations.cli import main
from rebalance.assignors import seam


def run(*args):
    return CliRunner().invoke(main, ["config", "list", *args], standalone_mode=False)


class Mine(seam.Assignor):
    """An assignor with a property of each type."""

    name = "mine"
    properties = (
        seam.AssignorProperty("my.rack", "", "the rack of this member"),
        seam.AssignorProperty("my.weight", 2, "its weight", 1, 5),
        seam.AssignorProperty("my.flag", default=True, meaning="whether"),
    )

    def assign(self, cluster, subscriptions):
        raise NotImplementedError


def test_every_property_of_consumers_and_assignors_is_there():
    records = json.loads(run("--json").stdout)
    names = [record["property"] for record in records]
    assert names == [*(known.name for known in PROPERTIES), "assignment.consumer.priority"]
    assert all(record["type"] and record["meaning"] for record in records)
    assert records[-1] == {
        "property": "assignment.consumer.priority",
        "read_by": "assignor failover",
        "type": "integer from -2147483648 to 2147483647",
        "default": "2147483647",
        "meaning": "failover gives all partitions to the member with the highest priority, and among equals to "
        "the smallest id",
    }


def test_ones_own_assignor_is_listed_with_its_types(monkeypatch):
    monkeypatch.setattr(seam, "Mine", Mine, raising=False)
    done = run("--strategy", "sticky,rebalance.assignors.seam:Mine", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(row["property"], row["type"], row["default"]) for row in rows] == [
        ("my.rack", "text", ""),
        ("my.weight", "integer from 1 to 5", "2"),
        ("my.flag", "true or false", "true"),
    ]


def test_people_are_given_a_table():
    lines = run().stdout.splitlines()
    assert lines[0].split() == ["PROPERTY", "READ", "BY", "TYPE", "DEFAULT", "MEANING"]
    assert any(line.startswith("partition.assignment.strategy ") and "range or roundrobin" in line for line in lines)


def test_a_strategy_that_is_none_is_refused():
    done = CliRunner().invoke(main, ["config", "list", "--strategy", "nix"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "assignor 'nix': give one of range" in done.stderr


@pytest.mark.parametrize("word", ["zookeeper.auth.digest", "ssl.key.password"])
def test_secrets_say_that_they_are(word):
    [record] = [one for one in json.loads(run("--json").stdout) if one["property"] == word]
    assert record["type"] == "text, never shown"
