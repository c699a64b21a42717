import contextlib
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from legacy_consumer.embedded import KAFKA_VERSIONS, EmbeddedEnsemble, EmbeddedKafka, EmbeddedZooKeeper
from legacy_consumer.errors import BrokersUnavailableError, PortInUseError, ServerStartError
from legacy_consumer.sandbox.nodes import KafkaNode
from legacy_consumer.sandbox.servers.ports import free_port
from legacy_consumer.sandbox.servers.process import ServerProcess, Workspace
from legacy_consumer.sandbox.servers.topics import topic_znodes
from legacy_consumer.sandbox.servers.waiting import wait_for
from zk_layout.codecs import decode_topic, decode_topic_config
from zk_layout.errors import ConfigError, ConnectTimeoutError, NodeExistsError, NoNodeError
from zk_layout.kazoo_store import KazooStore
from zk_layout.settings import ZkSettings

pytestmark = [pytest.mark.kafka]


# for a program that runs for a second, after its compiler
BRIEF = ("-XX:TieredStopAtLevel=1",)


def client_settings(kafka):
    old = {"api.version.request": False, "broker.version.fallback": "0.8.2"}
    return {"bootstrap.servers": kafka.bootstrap_servers, **(old if kafka.version.startswith("0.8") else {})}


def produce(kafka, topic, partition, value):
    producer = Producer({**client_settings(kafka), "message.timeout.ms": 20_000})
    errors = []
    producer.produce(topic, value, b"key", partition=partition, on_delivery=lambda error, _: errors.append(str(error)))
    assert producer.flush(30) == 0
    assert errors == ["None"]


def consume(kafka, topic, partition):
    consumer = Consumer({**client_settings(kafka), "group.id": "g", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        return message.value()
    finally:
        consumer.close()


@contextlib.contextmanager
def zookeeper_of(kafka):
    store = KazooStore(ZkSettings(kafka.zookeeper_connect))
    store.start()
    try:
        yield store
    finally:
        store.close()


def side_by_side(do, each):
    """Call do for each, three at a time, because a JVM that starts uses a processor for a part of the time only."""
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(do, each))


@pytest.fixture(scope="module")
def of_each_version():
    with contextlib.ExitStack() as stack:
        made = {
            version: EmbeddedKafka(version, chroot="/kafka", properties={"property.of.no.version": "1"})
            for version in KAFKA_VERSIONS
        }
        for kafka in made.values():
            stack.callback(kafka.close)
        side_by_side(EmbeddedKafka.start, made.values())
        yield made


@pytest.fixture(params=KAFKA_VERSIONS)
def kafka(request, of_each_version):
    return of_each_version[request.param]


def test_each_version_keeps_messages_in_a_topic_of_several_partitions(kafka):
    kafka.create_topic("several", 3)
    for partition in range(3):
        produce(kafka, "several", partition, b"message %d" % partition)
    assert [consume(kafka, "several", partition) for partition in range(3)] == [
        b"message 0",
        b"message 1",
        b"message 2",
    ]


def test_each_version_takes_a_topic_configuration_and_more_partitions(kafka):
    kafka.create_topic("growing", 1, config={"cleanup.policy": "compact"})
    kafka.add_partitions("growing", 4)
    produce(kafka, "growing", 3, b"in the new one")
    assert consume(kafka, "growing", 3) == b"in the new one"
    with zookeeper_of(kafka) as store:
        config = decode_topic_config("", store.get_data("/config/topics/growing").data)
        assert config.config == {"cleanup.policy": "compact"}
        assert set(decode_topic("", store.get_data("/brokers/topics/growing").data).partitions) == {0, 1, 2, 3}
    with pytest.raises(ConfigError, match="growing has 4 already"):
        kafka.add_partitions("growing", 4)


def test_each_version_deletes_a_topic_and_creates_it_anew(kafka):
    kafka.create_topic("again")
    produce(kafka, "again", 0, b"first life")
    kafka.delete_topic("again")
    with zookeeper_of(kafka) as store:
        assert store.exists("/brokers/topics/again") is None
    kafka.create_topic("again")
    produce(kafka, "again", 0, b"second life")
    assert consume(kafka, "again", 0) == b"second life"


def test_each_version_refuses_a_topic_that_exists_and_misses_one_that_does_not(kafka):
    kafka.create_topic("once")
    with pytest.raises(NodeExistsError, match="/config/topics/once exists already"):
        kafka.create_topic("once")
    with pytest.raises(NoNodeError):
        kafka.delete_topic("never")
    with pytest.raises(NoNodeError):
        kafka.add_partitions("never", 2)


def test_each_version_comes_back_with_its_data_after_stop_and_after_kill(of_each_version):
    def come_back(kafka):
        kafka.create_topic("lasting")
        produce(kafka, "lasting", 0, b"lasting")
        broker = kafka.brokers[0]
        port, pids = broker.port, {broker.pid}
        for end in (broker.stop, broker.kill):
            end()
            assert not broker.is_running
            broker.start()
            pids.add(broker.pid)
            assert consume(kafka, "lasting", 0) == b"lasting"
        assert broker.port == port
        assert len(pids) == 3
        return kafka.version

    assert side_by_side(come_back, of_each_version.values()) == list(KAFKA_VERSIONS)


def test_each_version_runs_programs_on_its_jars(kafka, tmp_path):
    source = tmp_path / "Version.java"
    source.write_text(
        "public class Version { public static void main(String[] args) {"
        " System.out.println(kafka.message.NoCompressionCodec.name() + args[0]); } }"
        if kafka.version in {"0.8.2.2", "0.10.2.2", "1.1.1"}
        else "public class Version { public static void main(String[] args) {"
        " System.out.println(org.apache.kafka.common.record.CompressionType.NONE.name + args[0]); } }"
    )
    done = subprocess.run(kafka.java_command(str(source), "!", flags=BRIEF), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "none!\n"), done.stderr


def test_kafkas_own_console_consumer_joins_through_zookeeper():
    with EmbeddedKafka("1.1.1") as kafka:
        kafka.create_topic("t")
        produce(kafka, "t", 0, b"for the old consumer")
        consumer = kafka.start_java(
            "console",
            "kafka.tools.ConsoleConsumer",
            *("--zookeeper", kafka.zookeeper_connect, "--topic", "t", "--from-beginning", "--max-messages", "1"),
        )
        assert consumer.wait(60) == 0, consumer.log_text()
        assert "for the old consumer" in consumer.log_text()


def test_three_brokers_survive_the_loss_of_a_leader():
    with EmbeddedEnsemble() as ensemble, EmbeddedKafka(brokers=3, zookeeper=ensemble, chroot="/a/b") as kafka:
        assert kafka.zookeeper_connect == f"{ensemble.connect}/a/b"
        assert len(kafka.bootstrap_servers.split(",")) == 3
        kafka.create_topic("t", 3, 3)
        kafka.brokers[0].kill()
        with zookeeper_of(kafka) as store:
            path = "/brokers/topics/t/partitions/0/state"
            wait_for(
                lambda: b'"leader":0' not in store.get_data(path).data, 30, lambda: AssertionError("no new leader")
            )
        produce(kafka, "t", 0, b"to the new leader")
        kafka.brokers[0].start()
        assert consume(kafka, "t", 0) == b"to the new leader"
        with pytest.raises(ConfigError, match="must be 1 to 3"):
            kafka.create_topic("too-many", 1, 4)


def test_two_clusters_share_a_zookeeper_under_different_chroots_only():
    with EmbeddedZooKeeper("3.4") as zookeeper, EmbeddedKafka(zookeeper=zookeeper, chroot="one") as one:
        with EmbeddedKafka("0.8.2.2", zookeeper=zookeeper.connect, chroot="/two/") as two:
            one.create_topic("t")
            two.create_topic("t")
        with pytest.raises(ServerStartError, match="already lists a broker with this id"):
            EmbeddedKafka(zookeeper=zookeeper, chroot="/one").start()
        produce(one, "t", 0, b"still there")


def test_a_topic_without_a_living_broker_is_an_error_within_the_bound():
    with EmbeddedKafka() as kafka:
        kafka.brokers[0].kill()
        with pytest.raises(BrokersUnavailableError, match="topic t has no leader for each of its 1 partitions"):
            kafka.create_topic("t", timeout_s=1)


def test_a_busy_port_is_refused_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with socket.create_server(("127.0.0.1", free_port())) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortInUseError) as caught:
            EmbeddedKafka(brokers=2, ports=[0, port]).start()
    assert (caught.value.server, caught.value.port) == ("broker-1", port)
    assert list(tmp_path.iterdir()) == []


def test_a_broker_that_refuses_its_settings_is_quoted_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ServerStartError, match="broker-0 did not start: its process ended") as caught:
        EmbeddedKafka(properties={"num.io.threads": "many"}).start()
    assert "many" in caught.value.log_tail
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_while_the_broker_starts_is_replaced(monkeypatch):
    with socket.create_server(("127.0.0.1", free_port())) as server:
        busy = server.getsockname()[1]
        offered = [busy]
        monkeypatch.setattr(
            "legacy_consumer.sandbox.servers.kafka.claim_port",
            lambda name, wanted, taken: offered.pop() if offered else free_port(),
        )
        with EmbeddedKafka() as kafka:
            assert kafka.brokers[0].port != busy
            kafka.create_topic("t")
            produce(kafka, "t", 0, b"x")


def test_a_given_zookeeper_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr("legacy_consumer.sandbox.servers.topics._CONNECTION_TIMEOUT_MS", 500)
    connect = f"127.0.0.1:{free_port()}"
    with pytest.raises(ConnectTimeoutError, match=connect):
        EmbeddedKafka(zookeeper=connect).start()


def test_each_listener_has_a_port_of_its_own():
    with EmbeddedKafka(
        listeners=("PLAINTEXT", "SASL_PLAINTEXT"),
        properties={
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                "org.apache.kafka.common.security.plain.PlainLoginModule required user_me='secret';"
            ),
        },
    ) as kafka:
        kafka.create_topic("t")
        port = kafka.brokers[0].ports["SASL_PLAINTEXT"]
        assert port != kafka.brokers[0].port
        producer = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{port}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "me",
                "sasl.password": "secret",
            }
        )
        producer.produce("t", b"x")
        assert producer.flush(30) == 0


def test_a_broker_of_a_container_may_have_an_id_above_1000(tmp_path):
    with EmbeddedZooKeeper() as zookeeper, Workspace("node") as workspace:
        port = free_port()
        loopback = {"listeners": f"PLAINTEXT://127.0.0.1:{port}"}
        node = KafkaNode(2000, zookeeper.connect, f"127.0.0.1:{port}", tmp_path, properties=loopback)
        process = ServerProcess("broker", node.prepare(), workspace, tmp_path / "broker.log")
        try:
            with topic_znodes(zookeeper.connect, "") as znodes:
                process.wait_until(lambda: znodes.is_registered(2000), 60, "it was not registered")
        finally:
            process.kill()
