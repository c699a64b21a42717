import pickle
from decimal import Decimal

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from spark_source.filters import may_hold, prune

G, T, P = ("group",), ("topic",), ("partition",)


@pytest.mark.parametrize(
    ("condition", "held", "refused"),
    [
        (EqualTo(G, "a"), "a", "b"),
        (EqualNullSafe(G, "a"), "a", "b"),
        (In(G, ["a", "b"]), "b", "c"),
        (In(G, ["a", None]), "a", "c"),
        (Not(EqualTo(G, "a")), "b", "a"),
        (Not(In(G, ["a", "b"])), "c", "a"),
        (StringStartsWith(G, "web"), "web-1", "a-web"),
        (StringEndsWith(G, "-1"), "web-1", "web-2"),
        (StringContains(G, "eb"), "web", "wab"),
        (Not(StringContains(G, "eb")), "wab", "web"),
        (GreaterThan(G, "b"), "c", "b"),
        (LessThan(P, 3), 2, 3),
        (LessThanOrEqual(P, 3), 3, 4),
        (GreaterThan(P, 3), 4, 3),
        (GreaterThanOrEqual(P, Decimal("2.5")), 3, 2),
        (Not(GreaterThan(P, 3)), 3, 4),
    ],
)
def test_a_filter_tells_what_cannot_be_wanted(condition, held, refused):
    assert may_hold(condition, held)
    assert not may_hold(condition, refused)


@pytest.mark.parametrize(
    "condition",
    [
        IsNotNull(G),
        Not(IsNull(G)),
        GreaterThan(G, None),
        Not(GreaterThan(G, None)),
        Not(EqualTo(G, None)),
        LessThan(G, 3),
        Not(LessThan(G, 3)),
        StringStartsWith(G, None),
        Not(IsNotNull(T)),
    ],
)
def test_what_is_not_understood_prunes_nothing(condition):
    assert may_hold(condition, "a")


def test_a_row_never_has_a_null_key():
    assert not may_hold(IsNull(G), "a")


def test_filters_apply_to_their_own_column_only():
    pruning = prune([EqualTo(G, "a"), StringStartsWith(T, "t"), Not(EqualTo(P, 0)), GreaterThan(("lag",), 10)])
    assert (pruning.wants_group("a"), pruning.wants_group("b")) == (True, False)
    assert (pruning.wants_topic("t1"), pruning.wants_topic("u")) == (True, False)
    assert (pruning.wants_partition(1), pruning.wants_partition(0)) == (True, False)


def test_a_column_in_capitals_is_the_same_column():
    assert not prune([EqualTo(("Group",), "a")]).wants_group("b")


def test_a_field_of_a_struct_is_not_the_column():
    assert prune([EqualTo(("group", "name"), "a")]).wants_group("b")


def test_without_filters_everything_is_wanted():
    pruning = prune([])
    assert pruning.wants_group("a")
    assert pruning.wants_topic("t")
    assert pruning.wants_partition(7)


def test_what_was_pushed_survives_the_way_to_the_executors():
    pruning = prune([In(G, ["a"]), Not(EqualTo(P, 0))])
    assert pickle.loads(pickle.dumps(pruning)) == pruning
