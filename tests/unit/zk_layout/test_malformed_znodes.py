"""For any bytes in a znode, a decoder gives a record or MalformedZnodeError, and nothing else."""

import pickle
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zk_layout.codecs import decode_registration, decode_znode, encode_registration
from zk_layout.codecs.znode import DECODERS
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import ConsumerRegistration
from zk_layout.paths import parse_path

SAMPLES = {
    "/consumers/g/ids/c": b'{"version":1,"subscription":{"t\\\\d":1,"u":2},"pattern":"white_list","timestamp":"14"}',
    "/consumers/g/owners/t/0": b"g_host-1416392398000-1a2b3c4d-0",
    "/consumers/g/offsets/t/0": b"9223372036854775807",
    "/brokers/ids/0": b'{"features":{"f":{"min_version":1,"max_version":3}},"endpoints":["A://[::1]:9092"],'
    b'"listener_security_protocol_map":{"A":"SSL"},"rack":"r","jmx_port":-1,"port":9092,"host":"h","version":5,"timestamp":"16"}',
    "/brokers/topics/t": b'{"partitions":{"0":[0,1],"1":[1]},"topic_id":"vPeOCWypqUOSepEvx0cbog",'
    b'"adding_replicas":{"0":[1]},"removing_replicas":{"0":[2]},"version":3}',
    "/brokers/topics/t/partitions/0/state": b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0],'
    b'"leader_recovery_state":1}',
    "/config/topics/t": b'{"version":1,"config":{"cleanup.policy":"compact"}}',
    "/controller": b'{"version":2,"brokerid":0,"timestamp":"1670000000000","kraftControllerEpoch":-1}',
    "/controller_epoch": b"17",
    "/cluster/id": b'{"version":"1","id":"6HvQ0wqfQ5mWzzPVFk2vXQ"}',
    "/feature": b'{"features":{"f":{"min_version_level":1,"max_version_level":3}},"version":1,"status":1}',
    "/latest_producer_id_block": b'{"version":1,"broker":0,"block_start":"0","block_end":"999"}',
    "/admin/reassign_partitions": b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}',
    "/admin/preferred_replica_election": b'{"version":1,"partitions":[{"topic":"t","partition":0}]}',
}
ODD_VALUES = (
    b"null", b"true", b"-0", b"1.0", b"1e999", b"NaN", b"-Infinity", b"2147483648", b"9" * 6_000, b"-" + b"9" * 30,
    b'""', b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\u0000"', b'"\xc3\x28"', b'"\\x"', b"[]", b"{}", b"[[]]", b"[null]",
    b'{"":1}', b'{"\\ud800":[0]}', b'{"a\\nb":null}', b"[" * 100_000, b'{"a":' * 100_000,
    b"[" * 900 + b'"\\ud800"' + b"]" * 900,
)  # fmt: skip
TOKEN = re.compile(rb'"[^"]*"|-?\d+|[\[{]')
HALF_SURROGATE_PAIR = re.compile(r"(?<!\\)\\ud[89a-f]")  # in the spelling of repr()

samples = st.sampled_from(sorted(SAMPLES.items()))


def decode_or_refuse(path: str, data: bytes | None) -> object:
    try:
        return decode_znode(path, data)
    except MalformedZnodeError as error:
        return error


def check(path: str, data: bytes | None) -> None:
    outcome = decode_or_refuse(path, data)
    copy = pickle.loads(pickle.dumps(outcome))
    if isinstance(outcome, MalformedZnodeError):
        assert (outcome.path, outcome.data) == (path, data)
        assert str(outcome).isprintable(), "a log line can hold it"
        assert str(copy) == str(outcome)
    else:
        assert copy == outcome
        assert HALF_SURROGATE_PAIR.search(repr(outcome)) is None, "no UTF-8 path or document could hold it"


@st.composite
def edited(draw: st.DrawFn, path: str | None = None) -> tuple[str, bytes]:
    """Draw a path and a sound document after a few cuts, copies and overwritten bytes."""
    path, data = draw(samples) if path is None else (path, SAMPLES[path])
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(data)))
        end = draw(st.integers(begin, min(len(data), begin + 12)))
        piece = draw(st.one_of(st.just(b""), st.just(data[begin:end] * 2), st.binary(max_size=4), st.sampled_from(
            [b"\\", b'"', b"{", b"]", b",", b"\\u", b"\xff", b"\n", b"-", b"0"])))  # fmt: skip
        data = data[:begin] + piece + data[end:]
    return path, data


@st.composite
def with_an_odd_value(draw: st.DrawFn) -> tuple[str, bytes]:
    """Draw a path and a sound document with one string, number or bracket replaced."""
    path, data = draw(samples)
    token = draw(st.sampled_from([m.span() for m in TOKEN.finditer(data)] or [(0, len(data))]))
    return path, data[: token[0]] + draw(st.sampled_from(ODD_VALUES)) + data[token[1] :]


def test_every_decoder_has_a_sound_sample():
    assert {type(parse_path(path)) for path in SAMPLES} == set(DECODERS)
    for path, data in SAMPLES.items():
        decode_znode(path, data)


@given(path=st.sampled_from(sorted(SAMPLES)), data=st.none() | st.binary() | st.text().map(str.encode))
@settings(max_examples=200)
def test_arbitrary_bytes_give_a_record_or_malformed(path, data):
    check(path, data)


@given(edited())
@settings(max_examples=400)
def test_damaged_documents_give_a_record_or_malformed(case):
    check(*case)


@given(with_an_odd_value())
@settings(max_examples=200)
def test_odd_values_give_a_record_or_malformed(case):
    check(*case)


@pytest.mark.parametrize("path", sorted(SAMPLES))
@pytest.mark.parametrize("value", ODD_VALUES, ids=lambda value: repr(value[:12]))
def test_an_odd_value_alone_gives_a_record_or_malformed(path, value):
    check(path, value)


def test_nesting_up_to_the_interpreters_limit_is_read_or_malformed():
    for depth in range(1, sys.getrecursionlimit()):
        check("/brokers/ids/0", b'{"x":%s"\\u0041"%s}' % (b"[" * depth, b"]" * depth))


@given(edited("/consumers/g/ids/c"))
@settings(max_examples=200)
def test_a_registration_that_was_read_can_be_written_for_others_to_read_the_same(case):
    record = decode_or_refuse(*case)
    if isinstance(record, ConsumerRegistration):
        assert decode_registration(case[0], encode_registration(record)) == record
