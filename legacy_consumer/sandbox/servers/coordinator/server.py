"""Serves group requests over TCP from memory and hands everything else to a broker.

One event loop, no thread. As a broker does, it takes the next request of a connection once the last one is answered.
Clients learn from Metadata where brokers are, so every broker behind gets a port here, and clients never speak to a
broker directly: all of their group requests arrive here.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from legacy_consumer.errors import BrokersUnavailableError, MalformedResponseError
from legacy_consumer.fetching.columnar.protocol.framing import Api
from legacy_consumer.fetching.columnar.protocol.group_messages import GROUP_EXCHANGES
from legacy_consumer.fetching.columnar.protocol.primitives import Reader, Writer
from legacy_consumer.sandbox.servers.coordinator.behind import (
    ask_broker,
    brokers_in,
    framed,
    read_frame,
    wants_no_answer,
    with_other_addresses,
)
from legacy_consumer.sandbox.servers.coordinator.desk import Desk
from legacy_consumer.sandbox.servers.coordinator.translation import Node, read_request, write_answer
from legacy_consumer.sandbox.servers.coordinator.versions import (
    PRODUCE,
    VersionRange,
    offered_versions,
    read_versions,
    write_versions,
)
from legacy_consumer.sandbox.servers.ports import LOOPBACK, claim_port
from rebalance.coordination import Settings
from zk_layout.loggers import safe_logger

logger = safe_logger(__name__)

_NAME = "the coordinator"
_GROUP_KEY = 0
_CONNECT_TIMEOUT_S = 20.0


class CoordinatorServer:
    """Listens on loopback inside `async with`.

    port: 0 for any free one. broker: host and port of one that takes everything else; None: there is none.
    """

    def __init__(self, port: int = 0, broker: tuple[str, int] | None = None, settings: Settings | None = None) -> None:
        self._wanted_port = port
        self._broker = broker
        self._settings = settings
        self._node_id = 0
        self._offered: list[VersionRange] = offered_versions(())
        self._servers: list[asyncio.Server] = []
        self._port_of: dict[int, int] = {}
        """{id of a broker behind: the port here that stands for it}."""
        self._address_behind: dict[int, tuple[str, int]] = {}
        """{id of a broker behind: where its port here leads to}."""
        self._connections: set[asyncio.Task[None]] = set()
        self._desk: Desk | None = None
        self._opening = asyncio.Lock()

    @property
    def port(self) -> int:
        """The port that clients bootstrap from."""
        return self._port_of[self._node_id]

    @property
    def address(self) -> str:
        """host:port, for bootstrap.servers."""
        return f"{LOOPBACK}:{self.port}"

    async def __aenter__(self) -> CoordinatorServer:
        """Raises: BrokersUnavailableError if the broker does not answer, PortInUseError, ConfigError for a port."""
        self._desk = Desk(self._settings)
        if self._broker is not None:
            await self._meet_broker(*self._broker)
        self._port_of[self._node_id] = await self._listen(self._wanted_port, self._node_id)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self._desk is not None:
            self._desk.close()

    async def _meet_broker(self, host: str, port: int) -> None:
        try:
            versions = await asyncio.wait_for(ask_broker(host, port, Api.API_VERSIONS, 0, b""), _CONNECT_TIMEOUT_S)
            metadata = await asyncio.wait_for(ask_broker(host, port, Api.METADATA, 0, _no_topic()), _CONNECT_TIMEOUT_S)
        except (OSError, EOFError, asyncio.TimeoutError, ValueError, MalformedResponseError) as error:
            raise BrokersUnavailableError(
                f"{host}:{port} does not answer as a broker of 0.10 or newer: {str(error) or type(error).__name__}"
            ) from error
        self._offered = offered_versions(read_versions(versions))
        brokers = brokers_in(metadata)
        given = (host, port)
        # the only broker may be reached at another address than it advertises
        alike = [node_id for node_id, told in brokers.items() if told == given or len(brokers) == 1]
        self._node_id = min(alike or brokers, default=0)
        self._address_behind[self._node_id] = given if alike else brokers.get(self._node_id, given)

    async def _listen(self, port: int, node_id: int) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections.add(task)
            try:
                await self._serve(reader, writer, _Broker(self._address_behind.get(node_id)))
            finally:
                self._connections.discard(task)

        server = await asyncio.start_server(serve, LOOPBACK, claim_port(_NAME, port))
        self._servers.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    async def _address_of(self, node_id: int, host: str, port: int) -> tuple[str, int]:
        if node_id != self._node_id:
            # a broker may come back at another address
            self._address_behind[node_id] = host, port
        async with self._opening:
            if node_id not in self._port_of:
                self._port_of[node_id] = await self._listen(0, node_id)
        return LOOPBACK, self._port_of[node_id]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, broker: _Broker) -> None:
        try:
            while True:
                answer = await self._answer(await read_frame(reader), broker)
                if answer is not None:
                    writer.write(framed(answer))
                    await writer.drain()
        except (EOFError, ConnectionError):
            pass  # the client has closed, or the broker
        except MalformedResponseError as error:
            # a client's request, or what the broker answered
            logger.warning("a connection is closed: %s: %s", error.what, error.reason)
        except (OSError, ValueError) as error:
            logger.warning("a connection is closed: %s", error)
        except asyncio.CancelledError:
            pass  # the server ends; no code waits for this task's result
        finally:
            broker.close()
            writer.close()

    async def _answer(self, request: bytes, broker: _Broker) -> bytes | None:
        """The response with its correlation id; None if the client wants none."""
        head = Reader(request, "a request")
        key, version, correlation_id = head.int16(), head.int16(), request[4:8]
        head.int32()
        if key == Api.API_VERSIONS:
            return correlation_id + write_versions(version, self._offered)
        api = Api(key) if key in GROUP_EXCHANGES else None
        client_id = head.nullable_string() if api is not None or key == PRODUCE else None
        body = request[len(request) - head.left :]
        if api is not None and not _is_about_transactions(api, version, body):
            if not 0 <= version <= GROUP_EXCHANGES[api].newest:
                raise MalformedResponseError(f"{api.name} request", f"version {version} is not offered")
            return correlation_id + await self._answer_member(api, version, body, client_id or "")
        if key == PRODUCE and wants_no_answer(version, head):
            await broker.send(request)
            return None
        response = await broker.ask(request)
        return await with_other_addresses(version, response, self._address_of) if key == Api.METADATA else response

    async def _answer_member(self, api: Api, version: int, body: bytes, client_id: str) -> bytes:
        assert self._desk is not None
        answer = await self._desk.ask(lambda handle: read_request(api, version, body, handle, client_id))
        return write_answer(api, version, answer, Node(self._node_id, LOOPBACK, self.port))


class _Broker:
    """A client's connection to the broker behind, opened when it is needed. Raises: OSError, EOFError."""

    def __init__(self, address: tuple[str, int] | None) -> None:
        self._address = address
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, request: bytes) -> None:
        if self._address is None:
            raise OSError(
                "this coordinator has no broker behind it and answers only group requests: give --broker HOST:PORT"
            )
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address)
        self._streams[1].write(framed(request))
        await self._streams[1].drain()

    async def ask(self, request: bytes) -> bytes:
        await self.send(request)
        assert self._streams is not None
        return await read_frame(self._streams[0])

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


def _is_about_transactions(api: Api, version: int, body: bytes) -> bool:
    """FindCoordinator can also ask for the coordinator of a transaction, which a broker is."""
    if api is not Api.FIND_COORDINATOR or version == 0:
        return False
    reader = Reader(body, "FIND_COORDINATOR request")
    reader.string()
    return reader.int8() != _GROUP_KEY


def _no_topic() -> bytes:
    """Metadata 0 for all topics: a broker creates none for it."""
    writer = Writer()
    writer.int32(0)
    return writer.done()
