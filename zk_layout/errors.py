"""Every error of the project hangs on this tree; each package adds its branch in its own errors.py.

LegacyConsumerError                 retriable says whether doing the same again can help
  ConfigError                       the caller's fault, raised before any I/O
  ZkLayoutError
    MalformedZnodeError             a znode holds data that no version of Kafka writes
  ZooKeeperError
    ConnectionLostError             retriable; the request may or may not have been carried out
    ConnectTimeoutError             retriable; no server answered within zookeeper.connection.timeout.ms
    SessionExpiredError             retriable; another session begins, all ephemerals and watches of this one are gone
    AuthenticationError             ZooKeeper refused the credentials
    NotPermittedError               an ACL forbids it
    MissingChrootError              the chroot of zookeeper.connect does not exist
    UnimplementedRequestError       this server's version does not know the request
    NoNodeError, NodeExistsError, BadVersionError, NotEmptyError
    MultiFailedError                one operation of an all-or-nothing request failed; nothing was done

The type tells which side is at fault and whether to retry; the facts are attributes. Errors survive pickle: each class
hands exactly its constructor's arguments to Exception, so that unpickling can call it again.
"""

from __future__ import annotations

from typing import ClassVar

from zk_layout.shown import shown


class LegacyConsumerError(Exception):
    """Root of all errors of this project."""

    retriable: ClassVar[bool] = False

    def __str__(self) -> str:
        return shown(self._text())

    def _text(self) -> str:
        """Return the whole text, however long the names in it are; str() shortens it."""
        return super().__str__()


class ConfigError(LegacyConsumerError):
    """A property that cannot be used as given."""

    def __init__(self, key: str, value: object, reason: str) -> None:
        super().__init__(key, value, reason)
        self.key = key
        self.value = value
        self.reason = reason

    def _text(self) -> str:
        text = str(self.value)
        # always one line
        given = "" if self.value is None else f"={text if text.isprintable() else ascii(text)[1:-1]}"
        return f"{self.key}{given}: {self.reason}"


class ZkLayoutError(LegacyConsumerError):
    """Something in ZooKeeper is not laid out as Kafka lays it out."""


class MalformedZnodeError(ZkLayoutError):
    """The data of a znode is not what any supported version of Kafka writes there."""

    def __init__(self, path: str, data: bytes | None, reason: str) -> None:
        super().__init__(path, data, reason)
        self.path = path
        self.data = data
        self.reason = reason

    def _text(self) -> str:
        data = self.data if self.data is None or len(self.data) <= 80 else self.data[:77] + b"..."
        return f"{self.path} holds {data!r}: {self.reason}"


class ZooKeeperError(LegacyConsumerError):
    """ZooKeeper did not carry out a request."""


class ConnectionLostError(ZooKeeperError):
    """The connection went away, or no reply came in time; a write may or may not have been carried out."""

    retriable: ClassVar[bool] = True


class ConnectTimeoutError(ZooKeeperError):
    """No ZooKeeper server answered in time. with_sasl: the client used SASL, which a server without SASL ignores."""

    retriable: ClassVar[bool] = True

    def __init__(self, connect: str, timeout_ms: int, with_sasl: bool = False) -> None:
        super().__init__(connect, timeout_ms, with_sasl)
        self.connect = connect
        self.timeout_ms = timeout_ms
        self.with_sasl = with_sasl

    def _text(self) -> str:
        or_no_sasl = "; or the server is not set up for SASL" if self.with_sasl else ""
        return (
            f"no ZooKeeper answered at {self.connect} within {self.timeout_ms} ms: check that it runs and that "
            f"zookeeper.connect is right, or raise zookeeper.connection.timeout.ms{or_no_sasl}"
        )


class SessionExpiredError(ZooKeeperError):
    """The session is gone, and with it its ephemeral znodes and its watches; another one begins by itself."""

    retriable: ClassVar[bool] = True


class AuthenticationError(ZooKeeperError):
    """ZooKeeper refused the credentials, or TLS could not be set up with it."""


class UnimplementedRequestError(ZooKeeperError):
    """The server's version does not know the request."""


class _PathError(ZooKeeperError):
    claim: ClassVar[str]

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def _text(self) -> str:
        return f"{self.path} {self.claim}"


class NotPermittedError(_PathError):
    """An ACL of the znode forbids the operation."""

    claim = "may not be accessed with these credentials: an ACL forbids it"


class MissingChrootError(_PathError):
    """The chroot of zookeeper.connect does not exist; the consumer does not create it, brokers do."""

    claim = "does not exist: it is the chroot given in zookeeper.connect, and only a broker creates it"


class NoNodeError(_PathError):
    """The znode does not exist."""

    claim = "does not exist"


class NodeExistsError(_PathError):
    """The znode exists already."""

    claim = "exists already"


class BadVersionError(_PathError):
    """The znode was written by someone else since it was read."""

    claim = "has another version than expected: someone else wrote it"


class NotEmptyError(_PathError):
    """The znode has children."""

    claim = "has children"


class MultiFailedError(ZooKeeperError):
    """A multi was refused as a whole because of one of its operations; nothing was done."""

    def __init__(self, index: int, path: str, cause: ZooKeeperError) -> None:
        super().__init__(index, path, cause)
        self.index = index
        self.path = path
        self.cause = cause

    def _text(self) -> str:
        return f"operation {self.index} on {self.path} failed, so nothing was done: {self.cause}"
