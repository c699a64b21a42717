import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.ranges import ALL_GROUPS, GROUPS_PER_TASK, MOST_TASKS, GroupRange, split_groups


@pytest.mark.parametrize(
    ("count", "tasks"),
    [(0, 1), (1, 1), (GROUPS_PER_TASK, 1), (GROUPS_PER_TASK + 1, 2), (GROUPS_PER_TASK * 100, MOST_TASKS)],
)
def test_the_number_of_tasks_follows_the_number_of_groups(count, tasks):
    assert len(split_groups(sorted(f"g{n}" for n in range(count)))) == tasks


def test_groups_are_cut_into_ranges_of_names():
    assert split_groups(list("abcde"), 2) == [GroupRange("", "d"), GroupRange("d", None)]


def test_there_are_no_more_tasks_than_groups():
    assert split_groups(["a", "b"], 5) == [GroupRange("", "b"), GroupRange("b")]
    assert split_groups([], 5) == [ALL_GROUPS]


@given(st.sets(st.text(max_size=3)), st.one_of(st.none(), st.integers(1, 40)), st.sets(st.text(max_size=3)))
def test_every_group_is_read_once_also_one_that_is_created_after_the_plan(groups, tasks, later):
    ranges = split_groups(sorted(groups), tasks)
    for group in groups | later:
        assert [each.holds(group) for each in ranges].count(True) == 1
    sizes = [sum(map(each.holds, groups)) for each in ranges]
    assert max(sizes) - min(sizes) <= 1
