"""Encodes the ACLs of the znodes that a store creates, and finds the ACLs that new znodes take over from others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from zk_layout.multi_write import encode_acl
from zk_layout.paths import acl_models
from zk_layout.store import EVERYBODY, Acl, AclEntries, AclEntry, CreateOp, DeleteOp, Op

_SECURE: AclEntries = (AclEntry(0b11111, "auth", ""), AclEntry(0b1, "world", "anyone"))
"""The creator may do everything, all others may read."""


class _EncodedAcls(dict[Acl | AclEntries, bytes]):
    """Encodes an ACL when it is first needed."""

    def __missing__(self, entries: AclEntries) -> bytes:
        return encode_acl(entries)


class Acls:
    """Gives the ACLs of the znodes that one store creates.

    acl_of: reads the ACL of a znode, encoded; None without a znode. secure: Acl.SECURE lets only the creator write.
    """

    def __init__(self, acl_of: Callable[[str], bytes | None], *, secure: bool) -> None:
        self._acl_of = acl_of
        self._secure = secure
        self.encoded: Mapping[Acl | AclEntries, bytes] = _EncodedAcls(
            {Acl.OPEN: encode_acl(EVERYBODY), Acl.SECURE: encode_acl(_SECURE if secure else EVERYBODY)}
        )

    def kept(self, ops: Sequence[Op]) -> dict[str, bytes]:
        """Return {path: ACL} for new znodes: of the znode that the new one replaces, else of one beside it or above it.

        The same multi may create that znode.
        """
        kept: dict[str, bytes] = {}
        made: dict[str, bytes] = {}
        found: dict[tuple[str, ...], bytes] = {}
        again = {op.path for op in ops if isinstance(op, DeleteOp)}
        for op in ops:
            if not isinstance(op, CreateOp):
                continue
            if op.path in again and (stood := self._acl_of(op.path)) is not None:
                kept[op.path] = stood
            elif op.acl is Acl.SECURE and not self._secure:
                models = acl_models(op.path)
                if models not in found:
                    found[models] = next(acl for path in models if (acl := made.get(path) or self._acl_of(path)))
                kept[op.path] = found[models]
            made[op.path] = kept.get(op.path) or self.encoded[op.acl]
        return kept
