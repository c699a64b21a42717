"""Translates the results and exceptions of kazoo; no other file does."""

from __future__ import annotations

from collections.abc import Sequence

from kazoo import exceptions as kazoo_errors
from kazoo.security import ACL

from zk_layout.errors import (
    AuthenticationError,
    BadVersionError,
    ConnectionLostError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    NotPermittedError,
    SessionExpiredError,
    UnimplementedRequestError,
    ZooKeeperError,
)
from zk_layout.store import AclEntries, AclEntry

_BY_PATH = {
    kazoo_errors.NoNodeError: NoNodeError,
    kazoo_errors.NodeExistsError: NodeExistsError,
    kazoo_errors.BadVersionError: BadVersionError,
    kazoo_errors.NotEmptyError: NotEmptyError,
    kazoo_errors.NoAuthError: NotPermittedError,
}
OR_NO_SASL = " (a server that is not set up for SASL does so, too)"
"""A server without SASL drops the connection, as after a wrong password."""
_QUOTA_EXCEEDED = -125
_REFUSED = (
    kazoo_errors.AuthFailedError,
    # kazoo 2.10 lacks it
    getattr(kazoo_errors, "SessionClosedRequireSaslError", kazoo_errors.AuthFailedError),
)


def translated(error: Exception, path: str) -> ZooKeeperError:
    """Turn kazoo's exceptions into exceptions of zk_layout.errors."""
    for foreign, ours in _BY_PATH.items():
        if isinstance(error, foreign):
            return ours(path)
    if isinstance(error, _REFUSED):
        return AuthenticationError(f"ZooKeeper refused the credentials{OR_NO_SASL}")
    match error:
        case kazoo_errors.ConnectionClosedError() | kazoo_errors.ConnectionLoss():
            return ConnectionLostError(f"the connection to ZooKeeper was lost while asking about {path}")
        case kazoo_errors.OperationTimeoutError() | kazoo_errors.SessionMovedError():
            return ConnectionLostError(f"ZooKeeper did not carry out the request about {path}")
        case kazoo_errors.SessionExpiredError():
            return SessionExpiredError("the ZooKeeper session has expired")
        case kazoo_errors.InvalidACLError():
            return AuthenticationError(
                f"{path}: ZooKeeper does not know whom the ACL should name, check the credentials"
            )
        case kazoo_errors.NoChildrenForEphemeralsError():
            return ZooKeeperError(f"{path}: an ephemeral znode cannot have children")
        case kazoo_errors.UnimplementedError():
            return UnimplementedRequestError(f"this ZooKeeper cannot do what was asked about {path}")
    return ZooKeeperError(f"{path}: {type(error).__name__} {error}".rstrip())


def failure_of(code: int, path: str) -> ZooKeeperError:
    """Return the error of zk_layout.errors for one of ZooKeeper's codes, of which an older kazoo does not know all."""
    if code == _QUOTA_EXCEEDED:
        return ZooKeeperError(f"{path}: a quota of ZooKeeper forbids it")
    # not by index, because EXCEPTIONS raises for an unknown code
    foreign = kazoo_errors.EXCEPTIONS.get(code)
    return ZooKeeperError(f"{path}: ZooKeeper's error {code}") if foreign is None else translated(foreign(), path)


def entries_of(acl: Sequence[ACL]) -> AclEntries:
    """Turn kazoo's ACL entries into AclEntries."""
    return tuple(AclEntry(entry.perms, entry.id.scheme, entry.id.id) for entry in acl)
