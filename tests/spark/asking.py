"""Queries asked of one DataFrame, over and over, and what a fresh DataFrame gives to the same ones."""

import random
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, Row, SparkSession

Literals = Mapping[str, Sequence[str]]
"""For each column, the key first, the values as SQL writes them with which a predicate may compare it."""

ALL_ROWS = "SELECT * FROM {}"


class Asking:
    """Asks one frame, as a view, while what stands behind it changes."""

    def __init__(self, spark: SparkSession, frame: DataFrame, literals: Literals, seed: int) -> None:
        self._spark = spark
        self._literals = literals
        self._random = random.Random(seed)
        frame.createOrReplaceTempView("asked")

    def differences(self, fresh: DataFrame) -> list[str]:
        """The queries to which the frame has another answer than a fresh one: a random predicate, all rows after it,
        and one query that scans the frame in every way there is.
        """
        rows = fresh.collect()
        self._spark.createDataFrame(rows, fresh.schema).createOrReplaceTempView("expected")
        found = []
        for query in (f"{ALL_ROWS} WHERE {self._predicate()}", ALL_ROWS, self._every_scan()):
            asked = self._answer(query.replace("{}", "asked"))
            expected = _sorted(rows) if query == ALL_ROWS else self._answer(query.replace("{}", "expected"))
            if asked != expected:
                found.append(f"{query}: {len(asked)} rows instead of {len(expected)}")
        return found

    def _every_scan(self) -> str:
        """A union of filters, a self-join, an anti-join and a subquery."""
        key = f"`{next(iter(self._literals))}`"
        some = [self._predicate() for _ in range(6)]
        joined = f"SELECT partition FROM {{}} WHERE {some[3]}"
        scans = [
            f"SELECT 'one', {key}, partition FROM {{}} WHERE {some[0]}",
            f"SELECT 'other', {key}, partition FROM {{}} WHERE {some[1]}",
            f"SELECT 'join', {key}, partition FROM {{}} JOIN ({joined}) USING (partition) WHERE {some[2]}",
            f"SELECT 'anti', {key}, partition FROM {{}} WHERE {key} NOT IN (SELECT {key} FROM {{}} WHERE {some[4]})",
            f"SELECT 'sub', {key}, partition FROM {{}} WHERE {key} = (SELECT max({key}) FROM {{}} WHERE {some[5]})",
        ]
        return " UNION ALL ".join(scans)

    def _predicate(self) -> str:
        name = self._random.choice(sorted(self._literals))
        column = f"`{name}`"
        one, other = self._random.sample(self._literals[name], k=2)
        return self._random.choice([f"{column} = {one}", f"{column} IN ({one}, {other})", f"{column} <> {one}"])

    def _answer(self, query: str) -> list[tuple[object, ...]]:
        return _sorted(self._spark.sql(query).collect())


def _sorted(rows: Sequence[Row]) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in rows), key=repr)
