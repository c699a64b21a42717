"""`legacy-consumer assign --coordination kafka` answers each line of input with one line."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from legacy_consumer.operations.cli.assign import assign
from rebalance.assignors.strategies import STRATEGIES


def run(*lines, strategy="range"):
    text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    return CliRunner().invoke(assign, ["--coordination", "kafka", "--strategy", strategy], input=text)


def answers(*lines, strategy="range"):
    result = run(*lines, strategy=strategy)
    assert (result.exit_code, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]


T = {"topics": ["t"]}
THREE = {"topics": {"t": 3}, "members": {"m2": T, "m1": T}}
JOINED = {
    "topics": {"t": 4},
    "members": {"m1": {"topics": ["t"], "owned": {"t": [0, 1, 2, 3]}, "generation": 4}, "m2": T},
}


@pytest.mark.parametrize(
    ("strategy", "answer"),
    [
        ("range", {"t/0": "m1", "t/1": "m1", "t/2": "m2"}),
        ("roundrobin", {"t/0": "m1", "t/1": "m2", "t/2": "m1"}),
        ("sticky", {"t/0": "m1", "t/1": "m2", "t/2": "m1"}),
        ("cooperative-sticky", {"t/0": "m1", "t/1": "m2", "t/2": "m1"}),
        ("failover", {"t/0": "m1", "t/1": "m1", "t/2": "m1"}),
        ("org.apache.kafka.clients.consumer.RoundRobinAssignor", {"t/0": "m1", "t/1": "m2", "t/2": "m1"}),
    ],
)
def test_each_strategy_divides_a_new_group(strategy, answer):
    assert answers(THREE, THREE, strategy=strategy) == [answer, answer]


def test_the_answer_is_sorted_by_topic_and_number():
    case = {"topics": {"t": 11, "a": 1}, "members": {"m": {"topics": ["t", "a"]}}}
    assert list(answers(case)[0]) == ["a/0", *(f"t/{n}" for n in range(11))]


def test_an_eager_member_is_given_at_once_what_another_one_had():
    assert answers(JOINED, strategy="sticky") == [{"t/0": "m1", "t/1": "m1", "t/2": "m2", "t/3": "m2"}]


def test_a_cooperative_group_holds_back_for_a_generation_what_moves():
    given_up = {
        "topics": {"t": 4},
        "members": {"m1": {"topics": ["t"], "owned": {"t": [0, 1]}, "generation": 5}, "m2": {**T, "generation": 5}},
    }
    assert answers(JOINED, given_up, strategy="cooperative-sticky") == [
        {"t/0": "m1", "t/1": "m1"},
        {"t/0": "m1", "t/1": "m1", "t/2": "m2", "t/3": "m2"},
    ]


def test_the_highest_priority_has_everything_and_the_next_one_takes_over():
    members = {"a": {**T, "priority": 5}, "b": {**T, "priority": 10}, "c": {**T, "priority": -1}}
    without_b = {name: member for name, member in members.items() if name != "b"}
    case = {"topics": {"t": 2}, "members": members}
    assert answers(case, {**case, "members": without_b}, strategy="failover") == [
        {"t/0": "b", "t/1": "b"},
        {"t/0": "a", "t/1": "a"},
    ]


def test_no_priority_is_the_highest_and_ties_go_by_member_id():
    members = {"a": {**T, "priority": 2**31 - 2}, "c": T, "b": {**T, "priority": 2**31 - 1}}
    assert answers({"topics": {"t": 1}, "members": members}, strategy="failover") == [{"t/0": "b"}]


def test_static_members_stand_in_the_order_of_their_instances():
    members = {"m1": {**T, "instance_id": "i2"}, "m2": {**T, "instance_id": "i1"}}
    assert answers({"topics": {"t": 2}, "members": members}) == [{"t/0": "m2", "t/1": "m1"}]


@pytest.mark.parametrize("case", [{"topics": {}, "members": {}}, {"topics": {"t": 3}, "members": {}}])
@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky", "failover"])
def test_a_group_with_nothing_to_give_is_an_empty_answer(case, strategy):
    gone = {"topics": {"t": 0}, "members": {"m": {"topics": ["t", "gone"]}, "idle": {"topics": []}}}
    assert answers(case, gone, strategy=strategy) == [{}, {}]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense\n", "not JSON"),
        ("\n", "not JSON: Expecting value: line 1 column 1"),
        ("[1,\r\n", "not JSON: Expecting value: line 1 column 4"),
        ("[" * 100000 + "\n", "not JSON"),
        ("[1]\n", "a case must be a JSON object, it is [1]"),
        ("null\n", "a case must be a JSON object, it is null"),
        ({"topics": {}}, '"members" is missing'),
        ({"topics": None, "members": {}}, '"topics" must be a JSON object, it is null'),
        ({"topics": {}, "members": {"m": None}}, "member m must be a JSON object, it is null"),
        (
            '{"topics": {"t": 1}, "members": {"m": {"topics": ["t"]}, "m": {"topics": ["t"]}}}\n',
            '"m" is there more than',
        ),
        ('{"topics": {"t": 1, "t": 2}, "members": {}}\n', '"t" is there more than once in one object'),
        ({"topics": {"t": "3"}, "members": {}}, 'from 0 to 1000000, not "3"'),
        ({"topics": {"t": 600_000, "u": 600_000}, "members": {}}, "the topics have 1200000 partitions"),
        ({"topics": {}, "members": {"m": {**T, "owned": {"t": ["0"]}}}}, "a partition of t must be an integer"),
        ({"topics": {}, "members": {"m": {**T, "generation": "4"}}}, '"generation" must be an integer from -1'),
        (
            {"topics": {}, "members": {"m": {**T, "instance_id": "i"}, "n": {**T, "instance_id": "i"}}},
            'members m and n have the same instance_id: "i"',
        ),
        ({"topics": {"t": -1}, "members": {}}, "topic t must have a number of partitions from 0 to 1000000, not -1"),
        ({"topics": {"t" * 250: 1}, "members": {}}, "is longer than 249 characters"),
        ({"topics": {}, "members": {"m": []}}, "member m must be a JSON object"),
        ({"topics": {}, "members": {"m": {}}}, 'member m: "topics" must be a list of topics'),
        ({"topics": {}, "members": {"m": {"topics": [1]}}}, "a topic must be a text, it is 1"),
        ({"topics": {}, "members": {"\ud800": T}}, "a member id is half a character"),
        ({"topics": {}, "members": {"m": {**T, "prio": 1}}}, '"prio" is none of generation, instance_id, owned'),
        ({"topics": {}, "members": {"m": {**T, "owned": {"t": 1}}}}, '"owned" must have a list of partitions'),
        ({"topics": {}, "members": {"m": {**T, "owned": {"t": [True]}}}}, "a partition of t must be an integer"),
        ({"topics": {}, "members": {"m": {**T, "generation": 2**31}}}, '"generation" must be an integer from -1'),
        ({"topics": {}, "members": {"m": {**T, "priority": 1.5}}}, '"priority" must be an integer'),
    ],
)
def test_a_line_that_is_no_case_is_answered_by_an_error_and_the_next_one_is_read(line, reason):
    refused, answered = answers(line, THREE)
    assert list(refused) == ["error"]
    assert reason in refused["error"]
    assert answered == {"t/0": "m1", "t/1": "m1", "t/2": "m2"}


@pytest.mark.parametrize(
    "case",
    [
        {"topics": {"t": 3}, "members": {"y" * 10_000_000: {"topics": 7}}},
        {"topics": {"t": 3}, "members": {"m": {"topics": ["t"], "y" * 10_000_000: 1}}},
        {"topics": {"y" * 10_000_000: -1}, "members": {}},
    ],
)
def test_a_line_of_ten_megabytes_is_answered_by_a_short_one(case):
    refused, answered = answers(case, THREE)
    assert len(refused["error"]) < 500
    assert answered == {"t/0": "m1", "t/1": "m1", "t/2": "m2"}


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
def test_owned_partitions_that_do_not_exist_any_more_count_nothing(strategy):
    owned = {"t": [1, 7, 9], "gone": [0, 1]}
    members = {"m1": {"topics": ["t"], "owned": owned, "generation": 3}, "m2": T}
    assert answers({"topics": {"t": 2}, "members": members}, strategy=strategy) == [{"t/0": "m2", "t/1": "m1"}]


MINE = """
from rebalance.assignors.seam import Assignor, MemberAssignment

class Broken(Assignor):
    name = "broken"

    def assign(self, cluster, subscriptions):
        return {"m1": MemberAssignment(tuple(cluster.partitions("t")[1:]))}

class Mine(Broken):
    name = "mine"

    def assign(self, cluster, subscriptions):
        return {min(subscriptions): MemberAssignment(tuple(cluster.partitions("t")))}
"""


def test_an_assignor_of_ones_own_is_found_by_its_import_path(tmp_path, monkeypatch):
    (tmp_path / "assigning_here.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    assert answers(THREE, strategy="assigning_here:Mine") == [{"t/0": "m1", "t/1": "m1", "t/2": "m1"}]
    assert answers(THREE, strategy="assigning_here:Broken") == [
        {"error": "assignor broken failed: it gives t/0 to no member"}
    ]
    monkeypatch.delitem(sys.modules, "assigning_here")


def test_null_is_what_a_member_does_not_say():
    nothing = dict.fromkeys(("owned", "generation", "priority", "instance_id"))
    case = {"topics": {"t": 3}, "members": {"m2": {**T, **nothing}, "m1": {**T, **nothing}}}
    for strategy in STRATEGIES:
        assert answers(case, strategy=strategy) == answers(THREE, strategy=strategy)


FAILING = """
import sys
from rebalance.assignors.seam import Assignor, MemberAssignment

class Base(Assignor):
    name = "failing"

    def assign(self, cluster, subscriptions):
        return {min(subscriptions): MemberAssignment(tuple(cluster.partitions("t")))}

class TellsNothing(Base):
    def subscription_user_data(self, topics):
        return None

class TellsAndExits(Base):
    def subscription_user_data(self, topics):
        sys.exit(3)

class TellsAndRaises(Base):
    def subscription_user_data(self, topics):
        raise ValueError("no luck")

class HearsAndRaises(Base):
    def on_assignment(self, assignment, generation):
        raise ValueError("no luck")

class HearsAndExits(Base):
    def on_assignment(self, assignment, generation):
        sys.exit(3)

class GivesLines(Base):
    def assign(self, cluster, subscriptions):
        return {min(subscriptions): MemberAssignment(("two\\nlines",))}
"""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("TellsNothing", "its subscription_user_data returned NoneType and not bytes"),
        ("TellsAndExits", "its subscription_user_data raised SystemExit: 3"),
        ("TellsAndRaises", "its subscription_user_data raised ValueError: no luck"),
        ("HearsAndRaises", "its on_assignment raised ValueError: no luck"),
        ("HearsAndExits", "its on_assignment raised SystemExit: 3"),
        ("GivesLines", "it gives two lines to member m1, which is no TopicPartition"),
    ],
)
def test_an_assignor_of_ones_own_that_fails_anywhere_is_an_error_and_the_next_line_is_read(
    tmp_path, monkeypatch, name, reason
):
    (tmp_path / "failing_here.py").write_text(FAILING)
    monkeypatch.syspath_prepend(tmp_path)
    answered = answers(JOINED, JOINED, strategy=f"failing_here:{name}")
    assert answered == [{"error": f"assignor failing failed: {reason}"}] * 2
    monkeypatch.delitem(sys.modules, "failing_here")


@pytest.mark.parametrize(
    ("strategy", "reason"),
    [
        ("nix", "give one of range, roundrobin, sticky, cooperative-sticky, failover, or the import path"),
        ("nowhere.at_all:ByRack", "cannot be imported: ModuleNotFoundError"),
        ("json:JSONDecoder", "JSONDecoder is no class derived from rebalance.assignors.seam.Assignor"),
        ("rebalance.assignors.seam:Assignor", "Assignor has no name"),
    ],
)
def test_a_strategy_that_is_none_is_refused_before_any_line_is_read(strategy, reason):
    result = run(THREE, strategy=strategy)
    assert (result.exit_code, result.stdout) == (2, "")
    assert reason in result.stderr


def test_strategies_of_coordinated_groups_are_none_of_classic_ones():
    result = CliRunner().invoke(assign, ["--strategy", "sticky"], input="")
    assert result.exit_code == 2
    assert "'sticky' is not one of range, roundrobin; give --coordination kafka for others" in result.stderr
