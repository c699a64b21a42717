import pickle
import re
from dataclasses import fields

import pytest

from zk_layout.model import TopicPartition
from zk_layout.paths import (
    PATH_CLASSES,
    BrokerIdPath,
    ConfigChangesPath,
    ConsumerIdPath,
    EntityConfigsPath,
    GroupPath,
    OffsetPath,
    OwnerPath,
    PartitionStatePath,
    TopicConfigPath,
    TopicConfigsPath,
    ZnodePath,
    broker_ids,
    is_znode_name,
    number_of,
    parse_path,
)


def sample(path_class: type[ZnodePath]) -> ZnodePath:
    numeric = re.findall(r"\{(\w+):d\}", path_class.template)
    return path_class(*(7 if f.name in numeric else f"some-{f.name}" for f in fields(path_class)))


@pytest.mark.parametrize(
    ("place", "path"),
    [
        (ConsumerIdPath("g", "g_host-1416392398000-1a2b3c4d"), "/consumers/g/ids/g_host-1416392398000-1a2b3c4d"),
        (OwnerPath("g", "t", 10), "/consumers/g/owners/t/10"),
        (OffsetPath("g", "t", 0), "/consumers/g/offsets/t/0"),
        (BrokerIdPath(1001), "/brokers/ids/1001"),
        (PartitionStatePath("t", 3), "/brokers/topics/t/partitions/3/state"),
        (TopicConfigPath("t"), "/config/topics/t"),
    ],
)
def test_paths_are_those_that_kafka_uses(place, path):
    assert place.path == path
    assert type(place).parse(path) == place


@pytest.mark.parametrize("path_class", PATH_CLASSES)
def test_every_path_parses_back_to_its_class(path_class):
    place = sample(path_class)
    assert path_class.parse(place.path) == place
    assert parse_path(place.path) == place
    assert pickle.loads(pickle.dumps(place)) == place


@pytest.mark.parametrize("path_class", PATH_CLASSES)
def test_fields_stand_in_the_order_of_the_template(path_class):
    assert re.findall(r"\{(\w+)", path_class.template) == [f.name for f in fields(path_class)]


@pytest.mark.parametrize(
    "path",
    [
        "/consumers/g/offsets/t/0-1",
        "/consumers/g/offsets/t/01",
        "/consumers/g/offsets/t/-1",
        "/consumers/g/offsets/t/+1",
        "/consumers/g/offsets/t/2147483648",
        "/consumers/g/offsets/t/\u0663",
        "/consumers/g/offsets/t/1\n",
        "/consumers/g/offsets/t/",
        "/consumers//offsets/t/1",
        "/consumers/g/offsets/t/1/x",
        "consumers/g/offsets/t/1",
        "",
    ],
)
def test_a_name_that_kafka_would_not_write_is_no_partition(path):
    assert OffsetPath.parse(path) is None
    assert parse_path(path) is None


def test_the_largest_partition_number_is_one():
    assert OffsetPath.parse("/consumers/g/offsets/t/2147483647") == OffsetPath("g", "t", 2147483647)


def test_a_group_named_like_a_directory_is_a_group():
    assert parse_path("/consumers/ids") == GroupPath("ids")
    assert parse_path("/consumers/ids/ids/ids") == ConsumerIdPath("ids", "ids")


def test_changes_and_topics_are_not_taken_for_other_kinds_of_configuration():
    assert parse_path("/config/changes") == ConfigChangesPath()
    assert parse_path("/config/topics") == TopicConfigsPath()
    assert parse_path("/config/users") == EntityConfigsPath("users")


def test_a_topic_partition_fills_the_last_two_fields():
    assert OwnerPath("g", *TopicPartition("t", 5)).path == "/consumers/g/owners/t/5"


def test_percent_signs_in_names_stay_as_they_are():
    assert OffsetPath("%s", "%d%%", 1).path == "/consumers/%s/offsets/%d%%/1"


def test_only_names_that_kafka_writes_are_brokers():
    strange = ["\u00b2", "\u0663", "9" * 5000, "-1", "00", "2147483648", "1_0", " 1", "x", "+2"]
    assert broker_ids(["10", *strange, "9", "0"]) == [0, 9, 10]


@pytest.mark.parametrize("name", ["", "-1", "+1", "01", "1 ", "1_0", "٣", str(2**31), "1" * 5000])
def test_a_name_that_kafka_does_not_write_is_no_number(name):
    """int() raises ValueError for thousands of digits, which any client may write."""
    assert number_of(name) is None


def test_a_name_that_kafka_writes_is_a_number():
    assert (number_of("0"), number_of(str(2**31 - 1))) == (0, 2**31 - 1)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a\n", "a\0", "\x7f", "\x85", "\ud800", "\uf8ff", "\uffff", "a😀"]
)
def test_a_name_that_zookeeper_refuses_is_no_name_of_a_znode(name):
    assert not is_znode_name(name)


@pytest.mark.parametrize("name", ["a", "...", "a b", "a:b", "ä", "\uf900", "\uffef"])
def test_any_other_name_is_a_name_of_a_znode(name):
    assert is_znode_name(name)
