"""Requests for many writes are the bytes that kazoo sends, and the decoder reads replies as ZooKeeper writes them."""

import struct

import pytest
from kazoo.protocol.serialization import CheckVersion, Create, Delete, SetData, Transaction
from kazoo.security import OPEN_ACL_UNSAFE

from zk_layout.errors import ZooKeeperError
from zk_layout.kazoo_translation import entries_of, failure_of
from zk_layout.multi_read import STAT_BYTES
from zk_layout.multi_write import FailedWrite, decode_failure, decode_set, encode_acl, encode_multi
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


CARRIED_OUT = {
    "check": HEADER.pack(13, 0, 0),
    "create": HEADER.pack(1, 0, 0) + INT.pack(2) + b"/b",
    "set": HEADER.pack(5, 0, 0) + STAT,
    "delete": HEADER.pack(2, 0, 0),
}


@pytest.mark.parametrize("first", CARRIED_OUT)
def test_no_operation_failed_if_the_first_did_not(first):
    assert decode_failure(CARRIED_OUT[first] + b"".join(CARRIED_OUT.values()) + END) is None


def test_a_multi_of_no_operations_is_carried_out():
    assert decode_failure(END) is None


def test_the_reply_to_a_set_has_the_stat_of_the_znode():
    assert len(STAT) == STAT_BYTES
    assert decode_set(CARRIED_OUT["set"] + END) == Stat(1, 2, 3, 4, 5, 6, 7, 8)


def test_a_failed_multi_names_the_operation_that_failed_and_not_its_neighbours():
    errors = b"".join(HEADER.pack(-1, 0, code) + INT.pack(code) for code in (0, 0, -110, -2))
    assert decode_failure(errors + END) == FailedWrite(2, -110)


@pytest.mark.parametrize("reply", [b"", HEADER.pack(-1, 0, -110), HEADER.pack(77, 0, 0) + END])
def test_bytes_that_are_no_reply_are_an_error(reply):
    with pytest.raises(ZooKeeperError, match="cannot be decoded"):
        decode_failure(reply)


def test_a_stat_that_is_cut_off_is_an_error():
    with pytest.raises(ZooKeeperError, match="cannot be decoded"):
        decode_set(HEADER.pack(5, 0, 0) + STAT[:-1])


@pytest.mark.parametrize(
    ("code", "said"), [(-125, "/a: a quota of ZooKeeper forbids it"), (-999, "/a: ZooKeeper's error -999")]
)
def test_an_error_that_kazoo_does_not_know_is_one_of_ours_too(code, said):
    error = failure_of(code, "/a")
    assert type(error) is ZooKeeperError
    assert str(error) == said
