"""The coordinator's server, without a broker or in front of fake brokers, and the bytes of group requests."""

import asyncio
import contextlib
import socket

import pytest
from click.testing import CliRunner

from legacy_consumer.errors import BrokersUnavailableError, MalformedResponseError, PortInUseError
from legacy_consumer.fetching.columnar.protocol.framing import Api, frame_request
from legacy_consumer.fetching.columnar.protocol.group_messages import GROUP_EXCHANGES, Kind, read_message, write_message
from legacy_consumer.fetching.columnar.protocol.primitives import Writer
from legacy_consumer.operations.cli.embedded import embedded
from legacy_consumer.sandbox.servers.coordinator import CoordinatorServer
from legacy_consumer.sandbox.servers.coordinator.behind import brokers_in, framed, read_frame, with_other_addresses
from legacy_consumer.sandbox.servers.coordinator.translation import read_request
from legacy_consumer.sandbox.servers.coordinator.versions import VersionRange, offered_versions, read_versions
from legacy_consumer.sandbox.servers.ports import free_port
from rebalance.coordination import Code
from zk_layout.errors import ConfigError

VERSIONS = [(api, version) for api, exchange in GROUP_EXCHANGES.items() for version in range(exchange.newest + 1)]


def filled(fields, version):
    """Return a message with a value in each field that the version has, and the defaults of the other fields."""
    example = {Kind.STRING: "text", Kind.NULLABLE_STRING: "some", Kind.BYTES: b"bytes"}
    some = {
        field.name: [filled(field.rows, version)] * 2 if field.rows else example.get(field.kind, 7) for field in fields
    }
    return {field.name: some[field.name] if field.is_in(version) else field.default for field in fields}


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_every_version_of_every_group_message_is_read_as_it_was_written(api, version):
    for fields in (GROUP_EXCHANGES[api].request, GROUP_EXCHANGES[api].response):
        row = filled(fields, version)
        body = write_message(fields, version, row)
        read = read_message(fields, version, body, api.name)
        assert read == row
        for end in range(len(body)):
            with pytest.raises(MalformedResponseError):
                read_message(fields, version, body[:end], api.name)
        with pytest.raises(MalformedResponseError):
            read_message(fields, version, body + b"x", api.name)


def test_a_join_of_version_0_has_its_session_timeout_as_rebalance_timeout():
    row = {"group": "g", "session_timeout_ms": 7_000, "member_id": "", "protocol_type": "consumer", "protocols": []}
    body = write_message(GROUP_EXCHANGES[Api.JOIN_GROUP].request, 0, row)
    request = read_request(Api.JOIN_GROUP, 0, body, 1, "client")
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (7_000, 7_000)


class Client:
    def __init__(self, port):
        self.port = port

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_):
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    async def ask(self, api, version, row):
        body = row if isinstance(row, bytes) else write_message(GROUP_EXCHANGES[api].request, version, row)
        self.writer.write(frame_request(api, version, 77, "client", body))
        response = await asyncio.wait_for(read_frame(self.reader), 30)
        assert int.from_bytes(response[:4], "big") == 77
        if isinstance(row, bytes):
            return response[4:]
        return read_message(GROUP_EXCHANGES[api].response, version, response[4:], api.name)

    async def is_hung_up_on(self):
        return await asyncio.wait_for(self.reader.read(1), 30) == b""


def with_server(play):
    async def run():
        async with CoordinatorServer() as server, Client(server.port) as client:
            await play(server, client)

    asyncio.run(run())


def joining(member_id=""):
    protocols = [{"name": "range", "metadata": b"m"}]
    return {
        "group": "g", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": member_id,
        "protocol_type": "consumer", "protocols": protocols,
    }  # fmt: skip


@pytest.mark.parametrize("version", range(6))
def test_a_member_joins_and_syncs_in_every_version_without_a_broker(version):
    async def play(server, client):
        found = await client.ask(Api.FIND_COORDINATOR, min(version, 2), {"key": "g", "key_type": 0})
        assert (found["error"], found["host"], found["port"]) == (0, "127.0.0.1", server.port)
        joined = await client.ask(Api.JOIN_GROUP, version, joining())
        if version >= 4:
            assert joined["error"] == Code.MEMBER_ID_REQUIRED
            joined = await client.ask(Api.JOIN_GROUP, version, joining(joined["member_id"]))
        assert (joined["error"], joined["generation"], joined["protocol"]) == (0, 1, "range")
        assert joined["leader"] == joined["member_id"]
        me = {"group": "g", "generation": 1, "member_id": joined["member_id"]}
        assigned = [{"member_id": joined["member_id"], "assignment": b"all"}]
        synced = await client.ask(Api.SYNC_GROUP, min(version, 3), {**me, "assignments": assigned})
        assert synced["assignment"] == b"all"
        left = await client.ask(Api.LEAVE_GROUP, min(version, 3), {**me, "members": [me]})
        assert left["error"] == 0

    with_server(play)


def test_clients_get_the_versions_and_a_client_with_a_newer_version_gets_an_error_to_ask_again():
    async def play(_, client):
        offered = read_versions(await client.ask(Api.API_VERSIONS, 0, b""))
        assert VersionRange(Api.JOIN_GROUP, 0, 5) in offered
        again = await client.ask(Api.API_VERSIONS, 3, b"\x00\x00\x00\x00")
        assert int.from_bytes(again[:2], "big") == 35
        assert read_versions(again) == [VersionRange(Api.API_VERSIONS, 0, 2)]

    with_server(play)


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (frame_request(Api.METADATA, 0, 1, "client", bytes(4)), "has no broker behind it"),
        (frame_request(Api.JOIN_GROUP, 6, 1, "client", b""), "JOIN_GROUP request: version 6 is not offered"),
        (frame_request(Api.JOIN_GROUP, -1, 1, "client", b""), "JOIN_GROUP request: version -1 is not offered"),
        (frame_request(Api.JOIN_GROUP, 2, 1, "client", b"\x00\x05gr"), "a string of 5 bytes does not fit"),
        (
            frame_request(
                Api.JOIN_GROUP, 2, 1, "c" * 32_767, write_message(GROUP_EXCHANGES[Api.JOIN_GROUP].request, 2, joining())
            ),
            "JOIN_GROUP request: no member id can be made of a name of 32767 bytes",
        ),
        (b"GET / HTTP/1.1\r\n\r\n", ""),
        (framed(b"\x00"), "a connection is closed: a request: "),
        (b"\xff\xff\xff\xff", ""),
    ],
    ids=[
        "needs a broker",
        "not offered",
        "below all versions",
        "ends too early",
        "long name",
        "another protocol",
        "no head",
        "size -1",
    ],
)
def test_a_client_that_cannot_be_answered_is_hung_up_on_and_the_next_one_is_served(sent, says, caplog):
    async def play(server, client):
        client.writer.write(sent)
        assert await client.is_hung_up_on()
        async with Client(server.port) as another:
            assert (await another.ask(Api.JOIN_GROUP, 2, joining()))["error"] == 0

    with_server(play)
    assert says in caplog.text
    assert "the answer to" not in caplog.text, "it is the client's request that is wrong"
    assert "Traceback" not in caplog.text


def test_the_proxy_offers_the_versions_of_the_broker_that_it_can_decode():
    behind = [VersionRange(0, 3, 13), VersionRange(1, 4, 18), VersionRange(3, 0, 13), VersionRange(11, 2, 9)]
    offered = {one.key: one for one in offered_versions(behind)}
    assert offered[0] == (0, 3, 8)
    assert offered[1] == (1, 4, 18)
    assert offered[3] == (3, 0, 8)
    assert offered[11] == (11, 0, 5)


@pytest.mark.parametrize("key", [68, 76, 88], ids=["consumer", "share", "streams"])
def test_clients_are_not_offered_the_groups_of_newer_protocols_which_only_the_broker_would_know(key):
    assert offered_versions([VersionRange(key, 0, 1)]) == offered_versions([])


@pytest.mark.parametrize("version", range(9))
def test_brokers_in_metadata_get_other_addresses_and_nothing_else_changes(version):
    throttle = b"\x00\x00\x00\x09" if version >= 3 else b""
    rack = b"\xff\xff" if version >= 1 else b""

    def response(host, port):
        broker = b"\x00\x00\x00\x05" + len(host).to_bytes(2, "big") + host + port.to_bytes(4, "big") + rack
        return b"\x00\x00\x00\x4d" + throttle + b"\x00\x00\x00\x01" + broker + b"the rest"

    async def address_of(node_id, host, port):
        assert (node_id, host, port) == (5, "broker.example", 9092)
        return "127.0.0.1", 1234

    changed = asyncio.run(with_other_addresses(version, response(b"broker.example", 9092), address_of))
    assert changed == response(b"127.0.0.1", 1234)


def test_a_port_in_use_and_a_silent_broker_are_errors_of_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(embedded, ["coordinator", "--port", str(port)])
    assert isinstance(result.exception, PortInUseError)
    result = CliRunner().invoke(embedded, ["coordinator", "--broker", f"127.0.0.1:{free_port()}"])
    assert isinstance(result.exception, BrokersUnavailableError)
    assert "does not answer as a broker of 0.10 or newer" in str(result.exception)


def test_a_port_that_this_user_may_not_have_is_not_said_to_be_in_use(monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(socket.socket, "bind", refuse)
    result = CliRunner().invoke(embedded, ["coordinator", "--port", "80"])
    assert isinstance(result.exception, ConfigError)
    assert "this user may not listen on it" in str(result.exception)


@pytest.mark.parametrize(
    "address", ["broker", "broker:", ":9092", "broker:0", "broker:70000", "broker:x", "b:٣", f"b:{'9' * 5000}"]
)
def test_an_address_that_is_none_is_refused(address):
    result = CliRunner().invoke(embedded, ["coordinator", "--broker", address])
    assert result.exit_code == 2
    assert "is not HOST:PORT" in result.output


class FakeBroker:
    """A broker that answers ApiVersions and Metadata 0, and any other request with its own id."""

    def __init__(self, node_id):
        self.node_id = node_id
        self.cluster = [self]

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()

    async def serve(self, reader, writer):
        with contextlib.suppress(EOFError):
            while True:
                request = await read_frame(reader)
                answer = {Api.API_VERSIONS: bytes(6), Api.METADATA: self.metadata()}.get(
                    int.from_bytes(request[:2], "big"), self.node_id.to_bytes(4, "big")
                )
                writer.write(framed(request[4:8] + answer))
                await writer.drain()
        writer.close()

    def metadata(self):
        writer = Writer()
        writer.int32(len(self.cluster))
        for broker in self.cluster:
            writer.int32(broker.node_id)
            writer.string("127.0.0.1")
            writer.int32(broker.port)
        writer.int32(0)
        return writer.done()


async def brokers_behind(server):
    """Return {id in Metadata: the id of the broker that answers at the address in Metadata}."""
    async with Client(server.port) as client:
        told = brokers_in(await client.ask(Api.METADATA, 0, bytes(4)))
    found = {}
    for node_id, (_, port) in told.items():
        async with Client(port) as client:
            found[node_id] = int.from_bytes(await client.ask(Api.LIST_OFFSETS, 1, b""), "big")
    return found


@pytest.mark.parametrize("given", [0, 1, 2])
def test_each_broker_in_metadata_leads_to_that_broker_whichever_was_given(given):
    async def run():
        async with FakeBroker(1) as one, FakeBroker(2) as two, FakeBroker(3) as three:
            cluster = [one, two, three]
            for broker in cluster:
                broker.cluster = cluster
            async with CoordinatorServer(broker=("127.0.0.1", cluster[given].port)) as server:
                assert await brokers_behind(server) == {1: 1, 2: 2, 3: 3}
            async with CoordinatorServer(broker=("localhost", cluster[given].port)) as server:
                assert await brokers_behind(server) == {1: 1, 2: 2, 3: 3}

    asyncio.run(run())


def test_a_broker_that_comes_back_at_another_port_is_found_there():
    async def run():
        async with FakeBroker(1) as one, FakeBroker(2) as two:
            one.cluster = [one, two]
            async with CoordinatorServer(broker=("127.0.0.1", one.port)) as server:
                assert await brokers_behind(server) == {1: 1, 2: 2}
                two.server.close()
                async with FakeBroker(2) as again:
                    one.cluster = [one, again]
                    assert await brokers_behind(server) == {1: 1, 2: 2}

    asyncio.run(run())


def test_the_only_broker_of_a_cluster_is_reached_at_the_given_address():
    async def run():
        async with FakeBroker(7) as one, FakeBroker(7) as unreachable:
            unreachable.server.close()
            one.cluster = [unreachable]
            async with CoordinatorServer(broker=("127.0.0.1", one.port)) as server:
                assert await brokers_behind(server) == {7: 7}

    asyncio.run(run())
