"""ZooKeeper or brokers are gone while a query plans, reads or writes: it fails in time, with nothing half done."""

import pytest

from legacy_consumer.errors import BrokersUnavailableError
from spark_source.batch import ZkOffsetsReader
from spark_source.errors import OffsetWriteError
from spark_source.messages.batch import ZkMessagesReader
from spark_source.messages.options import parse_message_options
from spark_source.offset_rows import offset_columns
from spark_source.offset_write import CollectedRows, ZkOffsetsWriter
from spark_source.offsets import request_columns
from spark_source.options import parse_options, parse_write_options
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import eventually
from zk_layout.errors import ConnectionLostError, ConnectTimeoutError

# ends a test that hangs
pytestmark = pytest.mark.timeout(100)

SOON = {"zookeeper.connection.timeout.ms": "700", "zookeeper.session.timeout.ms": "4000", "socket.timeout.ms": "1000"}
in_two_ways = pytest.mark.parametrize("way", ["cut", "pause"])


@pytest.fixture
def proxy(zookeeper):
    started = TcpProxy("127.0.0.1", zookeeper.port)
    started.start()
    yield started
    started.close()


@pytest.fixture
def through(tree, proxy):
    """Return the address of the tree through the proxy."""
    return f"127.0.0.1:{proxy.port}/{tree.connect.partition('/')[2]}"


def offsets_reader(connect):
    columns = request_columns([("group", "string", True), ("committed_offset", "bigint", True)])
    return ZkOffsetsReader(parse_options({"zookeeper.connect": connect, **SOON}), columns)


@in_two_ways
def test_a_task_without_zookeeper_fails_in_time_and_reads_everything_when_it_is_tried_again(tree, proxy, through, way):
    for group in ("a", "b"):
        tree.commit(group, "t", 0, 5)
    reader = offsets_reader(through)
    # with short time limits a call may also fail on a busy machine; then the test tries again, as Spark does
    [task] = eventually(reader.partitions)
    getattr(proxy, way)()
    with pytest.raises((ConnectTimeoutError, ConnectionLostError)):
        list(reader.read(task))
    proxy.restore()
    rows = eventually(lambda: [row for batch in reader.read(task) for row in batch.to_pylist()])
    assert rows == [{"group": group, "committed_offset": 5} for group in ("a", "b")]


@in_two_ways
@pytest.mark.parametrize("form", ["zk_offsets", "zk_messages"])
def test_a_plan_without_zookeeper_fails_in_time(proxy, through, way, form):
    getattr(proxy, way)()
    options = parse_message_options({"zookeeper.connect": through, "topics": "t", **SOON})
    reader = offsets_reader(through) if form == "zk_offsets" else ZkMessagesReader(options, ())
    with pytest.raises(ConnectTimeoutError, match="no ZooKeeper answered at"):
        reader.partitions()


@in_two_ways
def test_offsets_that_cannot_be_written_are_as_they_were(tree, proxy, through, way):
    tree.commit("g", "t", 0, 5)
    names = offset_columns([("group", "string"), ("topic", "string"), ("partition", "int"), ("offset", "bigint")])
    given = {"zookeeper.connect": through, "backupFolder": "none", "outsideLog": "allow", **SOON}
    writer = ZkOffsetsWriter(parse_write_options(given), names)
    getattr(proxy, way)()
    with pytest.raises(OffsetWriteError, match=r"^no offset was written: "):
        writer.commit([CollectedRows((("g", "t", 0, 9), ("h", "t", 0, 9)))])
    assert tree.store.get_data("/consumers/g/offsets/t/0").data == b"5"
    assert tree.store.exists("/consumers/h") is None


def test_brokers_that_are_registered_and_do_not_answer_end_the_plan_in_time(tree, unused_port):
    registration = f'{{"jmx_port":-1,"timestamp":"1","host":"127.0.0.1","version":1,"port":{unused_port}}}'
    tree.put("/brokers/ids/0", registration)
    tree.put("/brokers/topics/t", '{"version":1,"partitions":{"0":[0]}}')
    # ZooKeeper is reachable, and may be slow
    given = {**SOON, "zookeeper.connection.timeout.ms": "20000"}
    reader = ZkMessagesReader(parse_message_options({"zookeeper.connect": tree.connect, "topics": "t", **given}), ())
    with pytest.raises(BrokersUnavailableError):
        reader.partitions()
