"""The ZooKeepers that the contract suite runs over, and the faults that it makes in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from tests.support.tcp_proxy import TcpProxy
from tests.support.zk_wire import close_session
from zk_layout.kazoo_store import KazooStore
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.settings import ZkSettings
from zk_layout.store import ZkStore

_SOON_MS = 500


class Backend(Protocol):
    """Makes stores, breaks their connections, ends their sessions. close() closes every store it made."""

    def new_store(self, chroot: str = "") -> ZkStore: ...

    def new_cuttable_store(self, chroot: str = "") -> ZkStore:
        """Return a store that cut() can disconnect; then its requests fail soon."""
        ...

    def cut(self, store: ZkStore) -> None: ...

    def restore(self, store: ZkStore) -> None: ...

    def expire(self, store: ZkStore) -> None:
        """End the session of a store, whether it is connected or cut."""
        ...

    def close(self) -> None: ...


class MemoryBackend:
    def __init__(self) -> None:
        self.server = MemoryZooKeeper()
        self._stores: list[MemoryStore] = []

    def new_store(self, chroot: str = "") -> MemoryStore:
        store = MemoryStore(self.server, chroot=chroot)
        self._stores.append(store)
        return store

    new_cuttable_store = new_store

    def cut(self, store: Any) -> None:
        self.server.suspend(store)

    def restore(self, store: Any) -> None:
        self.server.resume(store)

    def expire(self, store: Any) -> None:
        self.server.expire(store.session_id)

    def close(self) -> None:
        for store in self._stores:
            store.close()


class KazooBackend:
    def __init__(self, connect: str) -> None:
        self.connect = connect
        host, _, port = connect.partition(":")
        self.address = (host, int(port))
        self._stores: list[KazooStore] = []
        self._proxies: dict[int, TcpProxy] = {}
        self._patience: dict[int, ZkSettings] = {}
        """{id of a store: its settings}, of stores for which the test gave no time limit for requests."""

    def new_store(self, chroot: str = "", **settings: Any) -> KazooStore:
        settings = {"session_timeout_ms": 10_000, "connection_timeout_ms": 20_000, **settings}
        store = KazooStore(ZkSettings(self.connect + chroot, **settings))
        self._stores.append(store)
        return store

    def new_cuttable_store(self, chroot: str = "", **settings: Any) -> KazooStore:
        proxy = TcpProxy(*self.address)
        proxy.start()
        settings = {"session_timeout_ms": 10_000, "connection_timeout_ms": 20_000, **settings}
        store = KazooStore(ZkSettings(f"127.0.0.1:{proxy.port}{chroot}", **settings))
        self._stores.append(store)
        self._proxies[id(store)] = proxy
        if "operation_timeout_ms" not in settings:
            self._patience[id(store)] = store._session.settings
        return store

    def proxy(self, store: KazooStore) -> TcpProxy:
        return self._proxies[id(store)]

    def cut(self, store: Any) -> None:
        # the short limit only applies while the store is cut: on a busy machine a reachable server may be slow
        if (patient := self._patience.get(id(store))) is not None:
            store._session.settings = replace(patient, operation_timeout_ms=_SOON_MS)
        self.proxy(store).cut()

    def restore(self, store: Any) -> None:
        self.proxy(store).restore()
        store._session.settings = self._patience.get(id(store), store._session.settings)

    def expire(self, store: Any) -> None:
        client = store._session.client
        close_session(self.address, client._session_id, client._session_passwd)

    def close(self) -> None:
        for store in self._stores:
            store.close()
        for proxy in self._proxies.values():
            proxy.close()
