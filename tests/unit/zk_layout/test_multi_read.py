"""Opcode 22 compared with bytes exchanged with ZooKeeper 3.9.5."""

import pytest

from zk_layout.errors import ZooKeeperError
from zk_layout.multi_read import (
    NO_NODE,
    ChunkSize,
    ReadFailure,
    ReadKind,
    decode_multi_read,
    encode_multi_read,
    next_chunk,
)
from zk_layout.store import Stat, Znode

# data of /gold/a (b"v"), /gold (null), /gold/x (missing) and /gold/ü (empty)
DATA_PATHS = ["/gold/a", "/gold", "/gold/x", "/gold/ü"]
DATA_REQUEST = bytes.fromhex(
    "0000000400ffffffff000000072f676f6c642f61000000000400ffffffff000000052f676f6c64000000000400ffffffff00000007"
    "2f676f6c642f78000000000400ffffffff000000082f676f6c642fc3bc00ffffffff01ffffffff"
)
DATA_REPLY = bytes.fromhex(
    "0000000400000000000000000176000000000000001c000000000000001c000001a1fdf4b4a2000001a1fdf4b4a20000000000000000"
    "0000000000000000000000000000000100000000000000000000001c000000040000000000ffffffff000000000000001b0000000000"
    "00001b000001a1fdf4b4a1000001a1fdf4b4a100000000000000020000000000000000000000000000000000000002000000000000"
    "001dffffffff00ffffff9bffffff9b00000004000000000000000000000000000000001d000000000000001d000001a1fdf4b4a30000"
    "01a1fdf4b4a300000000000000000000000000000000000000000000000000000000000000000000001dffffffff01ffffffff"
)
# children of /gold (a and ü), /gold/x (missing) and /gold/a (none)
CHILDREN_PATHS = ["/gold", "/gold/x", "/gold/a"]
CHILDREN_REQUEST = bytes.fromhex(
    "0000000800ffffffff000000052f676f6c64000000000800ffffffff000000072f676f6c642f78000000000800ffffffff00000007"
    "2f676f6c642f6100ffffffff01ffffffff"
)
CHILDREN_REPLY = bytes.fromhex(
    "00000008000000000000000002000000016100000002c3bcffffffff00ffffff9bffffff9b00000008000000000000000000ffffffff"
    "01ffffffff"
)


def test_requests_equal_recorded_ones_that_the_server_understood():
    assert encode_multi_read(ReadKind.DATA, DATA_PATHS) == DATA_REQUEST
    assert encode_multi_read(ReadKind.CHILDREN, CHILDREN_PATHS) == CHILDREN_REQUEST


def test_a_reply_gives_data_and_stat_in_the_order_asked():
    assert decode_multi_read(DATA_REPLY) == [
        Znode(b"v", Stat(28, 28, 1795262035106, 1795262035106, 0, 0, 1, 0)),
        Znode(None, Stat(27, 27, 1795262035105, 1795262035105, 0, 0, 0, 2, 2)),
        ReadFailure(NO_NODE),
        Znode(b"", Stat(29, 29, 1795262035107, 1795262035107, 0, 0, 0, 0)),
    ]


def test_a_reply_gives_sorted_children():
    assert decode_multi_read(CHILDREN_REPLY) == [("a", "ü"), ReadFailure(NO_NODE), ()]
    swapped = CHILDREN_REPLY.replace(bytes.fromhex("000000016100000002c3bc"), bytes.fromhex("00000002c3bc0000000161"))
    assert decode_multi_read(swapped)[0] == ("a", "ü")


@pytest.mark.parametrize("reply", [DATA_REPLY, CHILDREN_REPLY], ids=["data", "children"])
def test_a_reply_cut_anywhere_is_an_error_of_ours(reply: bytes):
    for length in range(len(reply)):
        with pytest.raises(ZooKeeperError, match="cannot be decoded"):
            decode_multi_read(reply[:length])


def test_an_unknown_result_type_is_an_error_of_ours():
    with pytest.raises(ZooKeeperError, match="unknown result type 9"):
        decode_multi_read(bytes.fromhex("0000000900ffffffff"))


def test_chunks_cover_all_paths_in_order():
    paths = [f"/n{number}" for number in range(1000)]
    size = ChunkSize(reads=300)
    chunks = []
    while sum(map(len, chunks)) < len(paths):
        chunks.append(next_chunk(paths, sum(map(len, chunks)), size))
    assert [path for chunk in chunks for path in chunk] == paths
    assert [len(chunk) for chunk in chunks] == [300, 300, 300, 100]


def test_a_chunk_of_long_paths_stays_below_the_request_limit():
    paths = ["/ü" + "x" * 10_000] * 200
    chunk = next_chunk(paths, 0, ChunkSize(reads=200))
    assert 1 < len(chunk) < 200
    assert len(encode_multi_read(ReadKind.DATA, chunk)) < 1_000_000


def test_a_path_longer_than_the_limit_still_goes_alone():
    assert len(next_chunk(["/" + "x" * 2_000_000] * 2, 0, ChunkSize())) == 1


def test_chunks_grow_while_replies_are_small_and_shrink_when_they_are_large():
    size = ChunkSize(reads=256)
    size.learn(256, 256 * 100)
    assert size.reads == 2000
    size.learn(2000, 2000 * 100_000)
    assert size.reads == 5
    size.learn(5, 5 * 1_000_000)
    assert size.reads == 1
    size.learn(1, 80)
    assert size.reads == 8
