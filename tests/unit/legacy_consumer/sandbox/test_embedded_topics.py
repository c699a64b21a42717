import pytest

from legacy_consumer.embedded import EmbeddedEnsemble, EmbeddedKafka, EmbeddedZooKeeper
from legacy_consumer.errors import ServerStartError
from legacy_consumer.sandbox.servers.jvm import write_properties
from legacy_consumer.sandbox.servers.topics import check_topic_name, spread_replicas
from zk_layout.errors import ConfigError


def test_leaders_and_followers_go_round_the_brokers():
    assert spread_replicas(range(4), range(3), 2) == {0: (0, 1), 1: (1, 2), 2: (2, 0), 3: (0, 1)}


def test_added_partitions_continue_the_spread_of_the_replicas():
    assert spread_replicas(range(2, 4), range(3), 1) == {2: (2,), 3: (0,)}


@pytest.mark.parametrize("factor", [0, 4])
def test_more_replicas_than_brokers_are_refused(factor):
    with pytest.raises(ConfigError, match="must be 1 to 3, the number of brokers"):
        spread_replicas(range(1), range(3), factor)


@pytest.mark.parametrize("many", [30_001, 10**9])
def test_more_partitions_than_fit_into_a_znode_are_refused_at_once(many):
    with pytest.raises(ConfigError, match="must be at most 30000: a znode"):
        spread_replicas(range(many), range(3), 1)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "a" * 250])
def test_a_name_that_brokers_refuse_is_refused(name):
    with pytest.raises(ConfigError, match="a topic's name has 1 to 249"):
        check_topic_name(name)


@pytest.mark.parametrize("name", ["a", "...", "__consumer_offsets", "A-b_c.9", "a" * 249])
def test_a_name_that_brokers_take_is_taken(name):
    check_topic_name(name)


def test_properties_are_escaped_as_java_reads_them(tmp_path):
    write_properties(tmp_path / "p", {"a.b": "c=d:e", "k y": " lead\n", "path": "C:\\x", "ü": "é😀"})
    assert (tmp_path / "p").read_text() == (
        "a.b=c=d:e\nk\\ y=\\ lead\\n\npath=C:\\\\x\n\\u00fc=\\u00e9\\ud83d\\ude00\n"
    )


@pytest.mark.parametrize("server", [EmbeddedZooKeeper, EmbeddedEnsemble, EmbeddedKafka])
def test_closing_a_server_that_was_never_started_is_harmless(server):
    made = server()
    made.close()
    made.close()


def test_a_server_that_is_not_started_has_no_address():
    with pytest.raises(ServerStartError, match="not started"):
        _ = EmbeddedZooKeeper().connect
    with pytest.raises(ServerStartError, match="not started"):
        _ = EmbeddedKafka().zookeeper_connect


def test_ports_must_be_as_many_as_servers():
    with pytest.raises(ConfigError, match="one for each of the 2 brokers"):
        EmbeddedKafka(brokers=2, ports=[1])
    with pytest.raises(ConfigError, match="one for each of the 3 servers"):
        EmbeddedEnsemble(ports=[1])
