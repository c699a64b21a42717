import pytest
from hypothesis import given
from hypothesis import strategies as st

from zk_layout.codecs import decode_offset, decode_owner, encode_offset, encode_owner
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import ConsumerThreadId

OFFSET = "/consumers/g/offsets/t/0"
OWNER = "/consumers/g/owners/t/0"


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        (b"0", 0),
        (b"1024", 1024),
        (b"-1", -1),
        (b"+7", 7),
        (b"007", 7),
        (b"-0", 0),
        (b"9223372036854775807", 2**63 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b"0" * 5_000 + b"12", 12),
        (b"0" * 30, 0),
    ],
)
def test_offsets_are_read_as_long_parse_long_does(data, offset):
    assert decode_offset(OFFSET, data) == offset


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b" 5",
        b"5 ",
        b"5\n",
        b"+",
        b"-",
        b"--5",
        b"+-5",
        b"1_0",
        b"1.0",
        b"0x10",
        b"5L",
        b"nan",
        b"9223372036854775808",
        b"-9223372036854775809",
        b"9" * 100_000,
        "\u0661".encode(),
        "\uff11".encode(),
        b"\xff",
        b"5\x00",
    ],
)
def test_an_offset_that_a_jvm_member_cannot_read_is_malformed(data):
    with pytest.raises(MalformedZnodeError) as caught:
        decode_offset(OFFSET, data)
    assert (caught.value.path, caught.value.data) == (OFFSET, data)


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_offset_survives(offset):
    assert decode_offset(OFFSET, encode_offset(offset)) == offset


@pytest.mark.parametrize("offset", [2**63, -(2**63) - 1])
def test_an_offset_beyond_64_bits_is_not_written(offset):
    with pytest.raises(ValueError, match="64 bits"):
        encode_offset(offset)


@pytest.mark.parametrize(
    ("data", "owner"),
    [
        (
            b"group1_host1-1416392398000-1a2b3c4d-0",
            ConsumerThreadId("group1_host1-1416392398000-1a2b3c4d", 0),
        ),
        (b"c-10", ConsumerThreadId("c", 10)),
        (b"c--1", ConsumerThreadId("c-", 1)),
        ("\u00e9\n-3".encode(), ConsumerThreadId("\u00e9\n", 3)),
    ],
)
def test_the_owner_is_cut_at_the_last_dash(data, owner):
    assert decode_owner(OWNER, data) == owner
    assert encode_owner(owner) == data


@pytest.mark.parametrize(
    "data",
    [None, b"", b"c", b"c-", b"-0", b"c-x", b"c-01", b"c-1\n", b"c-+1", b"c-1_0", b"\xff-0", b"c-" + b"9" * 9_999],
)
def test_an_owner_that_is_no_thread_id_is_malformed(data):
    with pytest.raises(MalformedZnodeError) as caught:
        decode_owner(OWNER, data)
    assert (caught.value.path, caught.value.data) == (OWNER, data)


def test_the_reason_names_the_clients_that_write_owners_without_a_thread():
    with pytest.raises(MalformedZnodeError, match="pykafka, wvanbergen/kafka and kafka-node"):
        decode_owner(OWNER, b"g_host:8fdb53c0")


@given(st.text(min_size=1), st.integers(0, 2**31 - 1))
def test_every_owner_survives(consumer_id, thread):
    owner = ConsumerThreadId(consumer_id, thread)
    assert decode_owner(OWNER, encode_owner(owner)) == owner
