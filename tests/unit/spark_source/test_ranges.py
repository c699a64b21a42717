import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.ranges import GROUPS_PER_TASK, MOST_TASKS, split_groups


@pytest.mark.parametrize(
    ("count", "tasks"),
    [(0, 0), (1, 1), (GROUPS_PER_TASK, 1), (GROUPS_PER_TASK + 1, 2), (GROUPS_PER_TASK * 100, MOST_TASKS)],
)
def test_the_number_of_tasks_follows_the_number_of_groups(count, tasks):
    assert len(split_groups([f"g{n}" for n in range(count)])) == tasks


def test_groups_are_cut_into_runs():
    assert split_groups(list("abcde"), 2) == [("a", "b", "c"), ("d", "e")]


def test_there_are_no_more_tasks_than_groups():
    assert split_groups(["a", "b"], 5) == [("a",), ("b",)]


@given(st.integers(0, 300), st.one_of(st.none(), st.integers(1, 40)))
def test_every_group_is_read_once_and_no_task_has_much_more_than_another(count, tasks):
    groups = [f"g{n}" for n in range(count)]
    runs = split_groups(groups, tasks)
    assert [group for run in runs for group in run] == groups
    sizes = [len(run) for run in runs]
    assert all(sizes)
    assert not sizes or max(sizes) - min(sizes) <= 1
