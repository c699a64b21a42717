"""Requests for many writes are the bytes that kazoo sends, and replies are read as ZooKeeper writes them."""

import struct

import pytest
from kazoo.protocol.serialization import CheckVersion, Create, Delete, SetData, Transaction
from kazoo.security import OPEN_ACL_UNSAFE

from zk_layout.errors import ZooKeeperError
from zk_layout.kazoo_translation import encode_acl, entries_of, failure_of
from zk_layout.multi_read import STAT_BYTES
from zk_layout.multi_write import FailedWrite, decode_multi, encode_multi
from zk_layout.store import Acl, CheckOp, CreateOp, DeleteOp, SetOp, Stat

HEADER, INT = struct.Struct("!iBi"), struct.Struct("!i")
END = HEADER.pack(-1, 1, -1)
STAT = struct.pack("!qqqqiiiqiiq", 1, 2, 3, 4, 5, 0, 0, 6, 7, 8, 9)


def test_the_request_has_the_bytes_that_kazoo_sends():
    ops = [
        CheckOp("/a", 3),
        CreateOp("/b", b"x", ephemeral=True, acl=Acl.OPEN),
        CreateOp("/n", None),
        SetOp("/c", b"\xc3\xa9", 7),
        DeleteOp("/d", -1),
    ]
    kazoo = Transaction(
        [
            CheckVersion("/chroot/a", 3),
            Create("/chroot/b", b"x", OPEN_ACL_UNSAFE, 1),
            Create("/chroot/n", None, OPEN_ACL_UNSAFE, 0),
            SetData("/chroot/c", b"\xc3\xa9", 7),
            Delete("/chroot/d", -1),
        ]
    )
    open_acl = encode_acl(entries_of(OPEN_ACL_UNSAFE))
    assert encode_multi(ops, "/chroot", {Acl.OPEN: open_acl, Acl.SECURE: open_acl}) == bytes(kazoo.serialize())


def test_a_reply_has_a_stat_for_each_write_and_nothing_for_the_rest():
    assert len(STAT) == STAT_BYTES
    reply = b"".join(
        [
            HEADER.pack(13, 0, 0),
            HEADER.pack(1, 0, 0),
            INT.pack(2) + b"/b",
            HEADER.pack(5, 0, 0),
            STAT,
            HEADER.pack(2, 0, 0),
            END,
        ]
    )
    assert decode_multi(reply) == [None, None, Stat(1, 2, 3, 4, 5, 6, 7, 8), None]


def test_a_failed_multi_names_the_operation_that_failed_and_not_its_neighbours():
    errors = b"".join(HEADER.pack(-1, 0, code) + INT.pack(code) for code in (0, 0, -110, -2))
    assert decode_multi(errors + END) == FailedWrite(2, -110)


@pytest.mark.parametrize("reply", [b"", HEADER.pack(5, 0, 0) + STAT[:-1], HEADER.pack(77, 0, 0) + END])
def test_bytes_that_are_no_reply_are_an_error(reply):
    with pytest.raises(ZooKeeperError, match="cannot be decoded"):
        decode_multi(reply)


@pytest.mark.parametrize(
    ("code", "said"), [(-125, "/a: a quota of ZooKeeper forbids it"), (-999, "/a: ZooKeeper's error -999")]
)
def test_an_error_that_kazoo_does_not_know_is_one_of_ours_too(code, said):
    error = failure_of(code, "/a")
    assert type(error) is ZooKeeperError
    assert str(error) == said
