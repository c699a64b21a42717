"""Runs queries on one DataFrame again and again, and compares with the answers of a fresh DataFrame."""

import random
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_source.reasons import reason_of
from zk_layout.errors import LegacyConsumerError

Ask: TypeAlias = Callable[[], list]
"""Returns the rows of one frame, or for one plan of a reader a list of rows for each task."""

Literals = Mapping[str, Sequence[str]]
"""{column: SQL literals with which a predicate may compare it}; the key column comes first."""


class Asked:
    """All frames that a test has queried; queries each of them once more after the cluster has changed."""

    def __init__(self) -> None:
        self._asked: list[tuple[Callable[[], Ask], Ask]] = []
        self._changes: dict[Callable[[], None], None] = {}

    def __call__(self, load: Callable[[], Ask], change: Callable[[], None]) -> list:
        """Return the rows of a frame. load: makes a fresh frame; change: changes the cluster before the second query,
        once for all frames of the test.
        """
        ask = load()
        rows = ask()
        self._asked.append((load, ask))
        self._changes[change] = None
        return rows

    def once_more(self) -> None:
        """Change the cluster, query each frame again, and compare with a fresh one."""
        for change in self._changes:
            change()
        for load, ask in self._asked:
            assert _outcome(ask) == _outcome(lambda load=load: load()()), "asked again, the frame has another answer"


def _outcome(ask: Ask) -> list[str]:
    """Return all rows in sorted order, without their division into tasks; or the error's reason."""
    try:
        rows = [row for part in ask() for row in (part if isinstance(part, list) else [part])]
        return sorted(map(repr, rows))
    except (PySparkException, LegacyConsumerError) as error:
        return [reason_of(error)]


class Asking:
    """Runs queries on one frame, as a view, while its cluster changes. SQLite computes the right answers."""

    def __init__(self, spark: SparkSession, frame: DataFrame, literals: Literals, seed: int) -> None:
        self._spark = spark
        self._literals = literals
        self._random = random.Random(seed)
        frame.createOrReplaceTempView("asked")

    def differences(self, fresh: DataFrame, *queries: str) -> list[str]:
        """Return the queries that the frame answers differently than SQLite does on the rows of a fresh frame. Default
        queries: a random predicate, then all rows, then one query with every kind of scan.
        """
        queries = queries or (
            f"SELECT * FROM asked WHERE {self._predicate()}",
            "SELECT * FROM asked",
            self._every_scan(),
        )
        with closing(sqlite3.connect(":memory:")) as rows:
            rows.execute(f"CREATE TABLE asked ({', '.join(f'`{name}`' for name in fresh.columns)})")
            rows.executemany(f"INSERT INTO asked VALUES ({', '.join('?' * len(fresh.columns))})", fresh.collect())
            found = []
            for query in queries:
                answer = sorted(map(tuple, self._spark.sql(query).collect()), key=repr)
                expected = sorted(rows.execute(query), key=repr)
                if answer != expected:
                    found.append(f"{query}: {len(answer)} rows instead of {len(expected)}")
        return found

    def _every_scan(self) -> str:
        """Return a query with a union of filters, a self-join, an anti-join and a subquery."""
        key = f"`{next(iter(self._literals))}`"
        some = [self._predicate() for _ in range(6)]
        joined = f"SELECT partition FROM asked WHERE {some[3]}"
        scans = [
            f"SELECT 'one', {key}, partition FROM asked WHERE {some[0]}",
            f"SELECT 'other', {key}, partition FROM asked WHERE {some[1]}",
            f"SELECT 'join', {key}, partition FROM asked JOIN ({joined}) AS joined USING (partition) WHERE {some[2]}",
            f"SELECT 'anti', {key}, partition FROM asked WHERE {key} NOT IN (SELECT {key} FROM asked WHERE {some[4]})",
            f"SELECT 'sub', {key}, partition FROM asked WHERE {key} = (SELECT max({key}) FROM asked WHERE {some[5]})",
        ]
        return " UNION ALL ".join(scans)

    def _predicate(self) -> str:
        name = self._random.choice(sorted(self._literals))
        column = f"`{name}`"
        one, other = self._random.sample(self._literals[name], k=2)
        return self._random.choice([f"{column} = {one}", f"{column} IN ({one}, {other})", f"{column} <> {one}"])
