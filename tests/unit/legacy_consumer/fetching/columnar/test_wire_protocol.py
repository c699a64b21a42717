"""Requests and responses as bytes: layouts of every version, and untrusted bytes."""

from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legacy_consumer.errors import BrokersUnavailableError, FetchError, MalformedResponseError
from legacy_consumer.fetching.columnar.protocol import error_codes
from legacy_consumer.fetching.columnar.protocol.api_versions import (
    Versions,
    decode_api_versions,
    versions_by_registration,
)
from legacy_consumer.fetching.columnar.protocol.error_codes import Remedy, error_name, remedy
from legacy_consumer.fetching.columnar.protocol.fetch import (
    FetchLimits,
    FetchPartition,
    FetchSession,
    decode_fetch,
    encode_fetch,
)
from legacy_consumer.fetching.columnar.protocol.framing import HEAD_BYTES, Api, check_head, frame_request
from legacy_consumer.fetching.columnar.protocol.list_offsets import (
    ListedOffset,
    decode_list_offsets,
    encode_list_offsets,
)
from legacy_consumer.fetching.columnar.protocol.metadata import decode_metadata, encode_metadata
from legacy_consumer.fetching.columnar.protocol.primitives import Reader, Writer
from legacy_consumer.fetching.columnar.protocol.sasl import decode_authenticate, decode_handshake
from zk_layout.model import TopicPartition

T0, T1, U5 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 5)
FETCH_VERSIONS = range(11)


def built(*values):
    """Encode numbers given as (bits, number), text as string, bytes as byte array, None as a null byte array."""
    writer = Writer()
    for value in values:
        match value:
            case (8, number):
                writer.int8(number)
            case (16, number):
                writer.int16(number)
            case (32, number):
                writer.int32(number)
            case (64, number):
                writer.int64(number)
            case str():
                writer.string(value)
            case bytes():
                writer.byte_array(value)
            case None:
                writer.int32(-1)
    return writer.done()


# Framing


def test_a_request_has_its_size_key_version_id_and_client_in_front():
    assert (
        frame_request(Api.FETCH, 4, 7, "me", b"body") == bytes.fromhex("00000010 0001 0004 00000007 0002") + b"mebody"
    )


def test_a_response_head_says_how_much_follows():
    assert check_head(bytes.fromhex("00000010 00000007"), 7, 100, Api.FETCH) == 12


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ("00000010 00000008", "it answers request 8, not 7"),
        ("00000065 00000007", "response size 101 is more than the 100 bytes expected"),
        ("7fffffff 00000007", "response size 2147483647 is more"),
        ("ffffffff 00000007", "its size is -1"),
        ("00000003 00000007", "its size is 3"),
    ],
)
def test_a_response_head_that_cannot_be_is_refused(head, reason):
    with pytest.raises(MalformedResponseError, match=reason):
        check_head(bytes.fromhex(head), 7, 100, Api.FETCH)


@given(st.binary(min_size=HEAD_BYTES, max_size=HEAD_BYTES), st.integers(0, 2**31 - 1), st.integers(4, 10**9))
def test_no_response_head_promises_more_than_is_expected(head, correlation_id, largest):
    try:
        size = check_head(head, correlation_id, largest, Api.FETCH)
    except MalformedResponseError:
        return
    assert 0 <= size <= largest - 4


# Primitives


@pytest.mark.parametrize("count", [2**31 - 1, 1000, -2])
def test_an_array_may_not_promise_more_than_the_frame_holds(count):
    reader = Reader(built((32, count), (64, 0)), "Fetch")
    with pytest.raises(MalformedResponseError, match=f"an array of {count} entries does not fit"):
        reader.count(8)


def test_a_null_array_has_no_entries():
    assert Reader(built((32, -1)), "Fetch").count(8) == 0


@pytest.mark.parametrize(
    ("data", "read", "reason"),
    [
        ("00", Reader.int16, "byte 0 of 1: it ends too early"),
        ("0005 61", Reader.string, "a string of 5 bytes does not fit into the 1 that are left"),
        ("8000 61", Reader.string, "a string of -32768 bytes"),
        ("ffff", Reader.string, "null stands where a string has to"),
        ("0001 ff", Reader.string, "not UTF-8"),
        ("00000009 61", Reader.nullable_bytes, "a byte array of 9 bytes"),
        ("80000000 61", Reader.nullable_bytes, "a byte array of -2147483648 bytes"),
    ],
)
def test_a_length_that_does_not_fit_is_refused_by_name(data, read, reason):
    with pytest.raises(MalformedResponseError, match=reason):
        read(Reader(bytes.fromhex(data), "Fetch"))


# Versions


def test_a_broker_that_cannot_be_asked_is_known_by_its_registration():
    assert versions_by_registration(1).of(Api.FETCH) == 0
    assert versions_by_registration(2).of(Api.FETCH) == 1
    assert versions_by_registration(3) is None


def test_the_newest_version_that_both_speak_is_used():
    ranges = [(1, 4, 17), (2, 0, 8), (3, 9, 12), (17, 0, 1), (99, 0, 3)]
    frame = built((16, 0), (32, len(ranges)), *[(16, number) for one in ranges for number in one])
    versions = decode_api_versions(frame)
    assert (versions.of(Api.FETCH), versions.of(Api.LIST_OFFSETS), versions.of(Api.SASL_HANDSHAKE)) == (10, 2, 1)
    with pytest.raises(BrokersUnavailableError, match="no version of METADATA"):
        versions.of(Api.METADATA)


def test_fetches_are_sent_in_a_version_that_only_a_leader_answers():
    """From version 11 on, a follower answers too: an earlier version stayed with it after the leader had moved."""
    assert decode_api_versions(built((16, 0), (32, 1), (16, 1), (16, 4), (16, 17))).of(Api.FETCH) == 10


def test_a_broker_that_refuses_to_tell_its_versions_is_named_so():
    with pytest.raises(BrokersUnavailableError, match="UNSUPPORTED_VERSION"):
        decode_api_versions(built((16, 35), (32, 0)))


# Fetch

LIMITS = FetchLimits(max_wait_ms=100, min_bytes=1, max_bytes=9, read_committed=True)


def test_the_oldest_fetch_request_names_offset_and_size_of_each_partition():
    wanted = {T0: FetchPartition(5, 1000), U5: FetchPartition(6, 1000), T1: FetchPartition(7, 2000)}
    assert encode_fetch(0, LIMITS, wanted, FetchSession()) == built(
        (32, -1), (32, 100), (32, 1), (32, 2),
        "t", (32, 2), (32, 0), (64, 5), (32, 1000), (32, 1), (64, 7), (32, 2000),
        "u", (32, 1), (32, 5), (64, 6), (32, 1000),
    )  # fmt: skip


def test_a_fetch_request_in_a_session_names_what_changed_and_what_is_forgotten():
    body = encode_fetch(10, LIMITS, {T0: FetchPartition(5, 1000)}, FetchSession(77, 3), [T1, U5])
    assert body == built(
        (32, -1), (32, 100), (32, 1), (32, 9), (8, 1), (32, 77), (32, 3),
        (32, 1), "t", (32, 1), (32, 0), (32, -1), (64, 5), (64, -1), (32, 1000),
        (32, 2), "t", (32, 1), (32, 1), "u", (32, 1), (32, 5),
    )  # fmt: skip


def fetch_response(version, *, records=b"abc", error=0, aborted=((9, 4),)):
    """Return a Fetch response for T0 in the layout of the version."""
    return built(
        *([(32, 250)] if version >= 1 else []),
        *([(16, 0), (32, 77)] if version >= 7 else []),
        (32, 1), "t", (32, 1), (32, 0), (16, error), (64, 1000),
        *([(64, 900)] if version >= 4 else []),
        *([(64, 0)] if version >= 5 else []),
        *([(32, len(aborted)), *[(64, n) for one in aborted for n in one]] if version >= 4 else []),
        records,
    )  # fmt: skip


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_fetch_response_of_every_version_is_read(version):
    response = decode_fetch(version, fetch_response(version))
    assert (response.error, response.throttle_ms) == (0, 250 if version else 0)
    assert response.session_id == (77 if version >= 7 else 0)
    found = response.partitions[T0]
    assert (found.error, found.high_watermark, bytes(found.records)) == (0, 1000, b"abc")
    assert found.aborted == (((9, 4),) if version >= 4 else ())


def test_records_of_a_fetch_response_are_not_copied():
    frame = bytearray(fetch_response(4))
    found = decode_fetch(4, frame).partitions[T0]
    frame[-1:] = b"d"
    assert bytes(found.records) == b"abd"


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_partition_without_records_has_none(version):
    assert decode_fetch(version, fetch_response(version, records=None, error=6)).partitions[T0].records is None


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_fetch_response_cut_anywhere_is_refused(version):
    whole = fetch_response(version)
    for size in range(len(whole)):
        with pytest.raises(MalformedResponseError, match="Fetch"):
            decode_fetch(version, whole[:size])


def test_bytes_behind_the_end_and_a_partition_that_comes_twice_are_refused():
    with pytest.raises(MalformedResponseError, match="1 bytes follow its end"):
        decode_fetch(4, fetch_response(4) + b"x")
    twice = built((32, 1), "t", (32, 2), *[(32, 0), (16, 0), (64, 0), b""] * 2)
    with pytest.raises(MalformedResponseError, match="t/0 comes twice"):
        decode_fetch(0, twice)


ONE_TOPIC = ((32, 1), "t", (32, 1))
DECODERS = {f"Fetch {v}": (fetch_response(v), partial(decode_fetch, v)) for v in FETCH_VERSIONS} | {
    "ListOffsets 0": (built(*ONE_TOPIC, (32, 0), (16, 0), (32, 1), (64, 5)), partial(decode_list_offsets, 0)),
    "ListOffsets 2": (built((32, 0), *ONE_TOPIC, (32, 0), (16, 0), (64, -1), (64, 5)), partial(decode_list_offsets, 2)),
    "Metadata 0": (
        built(
            *[(32, 1), (32, 1), "h", (32, 9092), (32, 1), (16, 0), "t", (32, 1)],
            *[(16, 0), (32, 0), (32, 1), (32, 1), (32, 1), (32, 0)],
        ),
        partial(decode_metadata, 0),
    ),
    "ApiVersions": (built((16, 0), (32, 1), (16, 1), (16, 0), (16, 9)), decode_api_versions),
    "SaslHandshake": (built((16, 33), (32, 1), "PLAIN"), decode_handshake),
    "SaslAuthenticate": (built((16, 58), "no", b"xyz"), decode_authenticate),
}


@pytest.mark.parametrize("name", DECODERS)
@given(data=st.data())
def test_no_response_however_mutated_does_more_than_be_refused(name, data):
    sound, decode = DECODERS[name]
    mutated = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 6))):
        mutated[data.draw(st.integers(0, len(sound) - 1))] = data.draw(st.integers(0, 255))
    mutated = mutated[: data.draw(st.integers(0, len(sound)))] + data.draw(st.binary(max_size=20))
    with suppress(MalformedResponseError, BrokersUnavailableError):
        decode(memoryview(mutated))


# The others


def test_offsets_are_asked_for_by_time_and_read():
    assert encode_list_offsets(0, {T0: -2}, read_committed=True) == built(
        (32, -1), (32, 1), "t", (32, 1), (32, 0), (64, -2), (32, 1)
    )
    assert encode_list_offsets(2, {T0: -1}, read_committed=True) == built(
        (32, -1), (8, 1), (32, 1), "t", (32, 1), (32, 0), (64, -1)
    )
    answer = built((32, 1), "t", (32, 1), (32, 0), (16, 3), (64, -1), (64, 5))
    assert decode_list_offsets(1, answer) == {T0: ListedOffset(3, 5)}
    none = built((32, 1), "t", (32, 1), (32, 0), (16, 0), (32, 0))
    assert decode_list_offsets(0, none) == {T0: ListedOffset(0, -1)}


def test_metadata_asks_for_topics_without_creating_them_and_knows_leaders():
    assert encode_metadata(4, ["t"]) == built((32, 1), "t", (8, 0))
    head = [(32, 0), (32, 1), (32, 1), "h", (32, 9092), (16, -1), (16, -1), (32, 1), (32, 1), (16, 0), "t", (8, 0)]
    partitions = [(16, 5), (32, 0), (32, -1), (32, 0), (32, 0), (16, 9), (32, 1), (32, 1), (32, 1), (32, 1), (32, 0)]
    metadata = decode_metadata(4, built(*head, (32, 2), *partitions))
    assert (metadata.brokers, metadata.leaders) == ({1: ("h", 9092)}, {T1: 1})


@pytest.mark.parametrize(("code", "kind"), [(29, FetchError), (5, BrokersUnavailableError)])
def test_a_topic_that_the_broker_refuses_is_an_error_that_says_whether_to_ask_again(code, kind):
    head = [(32, 0), (32, 1), (32, 1), "h", (32, 9092), (16, -1), (16, -1), (32, 1), (32, 1), (16, code), "t", (8, 0)]
    metadata = decode_metadata(4, built(*head, (32, 0)))
    assert (type(metadata.refused["t"]), str(metadata.refused["t"])) == (kind, f"t: the broker says {error_name(code)}")


def test_a_port_that_cannot_be_is_refused():
    with pytest.raises(MalformedResponseError, match="port 0 of broker 1"):
        decode_metadata(0, built((32, 1), (32, 1), "h", (32, 0), (32, 0)))


def test_errors_have_names_and_remedies_and_unknown_ones_are_asked_again():
    assert (error_name(6), remedy(6)) == ("NOT_LEADER_OR_FOLLOWER", Remedy.FIND_LEADER)
    assert remedy(error_codes.OFFSET_OUT_OF_RANGE) is Remedy.FIND_POSITION
    assert (error_name(12345), remedy(12345)) == ("error 12345", Remedy.AGAIN)


def test_a_session_goes_on_by_number_and_starts_again_where_the_broker_keeps_none():
    assert FetchSession().next(77) == FetchSession(77, 1)
    assert FetchSession(77, 2**31 - 1).next(77) == FetchSession(77, 1)
    assert FetchSession(77, 5).next(0) == FetchSession()


def test_versions_that_are_known_are_given():
    assert Versions({Api.FETCH: 7}).of(Api.FETCH) == 7
