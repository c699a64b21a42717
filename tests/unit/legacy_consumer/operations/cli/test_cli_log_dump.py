"""`legacy-consumer log dump` of logs that real brokers wrote, compared with Kafka's own DumpLogSegments.

A Fetch response from offset 0 holds the bytes of the segment. tests/data/segments is the output of kafka 2.8.2,
`kafka.tools.DumpLogSegments --deep-iteration --files NAME/00000000000000000000.log,...` on these bytes.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import struct
import zlib
from pathlib import Path

import pytest
from click.testing import CliRunner

from legacy_consumer.operations.cli import main
from tests.support.record_encoder import Written, batch

pytest.importorskip("legacy_consumer_native")

DATA = Path(__file__).parents[4] / "data"
RECORD_SETS = DATA / "record_sets" / "2.8.2"
KAFKA = DATA / "segments" / "dump-log-segments-2.8.2.txt.gz"
FIELD = re.compile(r"(\w+): (\[.*?\]|\S+)")


def dump(*arguments):
    """Run the command through main, because only the whole program turns errors into exit codes."""
    return CliRunner().invoke(main, ["log", "dump", *map(str, arguments)])


def written(folder, name, data):
    path = folder / name / "00000000000000000000.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


def recorded(name):
    return (RECORD_SETS / f"{name}.bin").read_bytes()


def kafkas_dumps():
    """Return {name: lines} of the output of Kafka's tool."""
    dumps = {}
    for line in gzip.decompress(KAFKA.read_bytes()).decode().splitlines():
        if line.startswith("Dumping "):
            name = line.removeprefix("Dumping ").partition("/")[0]
            dumps[name] = []
        elif not line.startswith("Starting offset"):
            dumps[name].append(line)
    return dumps


def fields(line):
    return dict(FIELD.findall(line))


@pytest.mark.parametrize("name", sorted(kafkas_dumps()))
def test_entries_and_records_are_those_that_kafkas_tool_shows(name, tmp_path):
    result = dump("--deep", written(tmp_path, name, recorded(name)))
    assert result.exit_code == 0, result.output
    _, start, *lines, end = result.stdout.splitlines()
    assert start == "Starting offset: 0"
    assert end.startswith(f"sound to its end, byte {len(recorded(name))}, last offset ")
    theirs = kafkas_dumps()[name]
    assert len(lines) == len(theirs)
    for ours, kafkas in zip(lines, theirs, strict=True):
        if kafkas.startswith("|"):
            told = fields(kafkas)
            # for the record of a marker, Kafka's tool repeats the batch
            wanted = {word: value for word, value in fields(ours).items() if word not in {"key", "payload"}}
            assert wanted
            assert {word: told[word] for word in wanted} == wanted
        else:
            assert ours == kafkas


@pytest.mark.parametrize("version", ["0.8.2.2", "0.10.2.2", "1.1.1", "2.8.2", "3.9.1"])
def test_records_are_those_that_a_consumer_was_given(version, tmp_path):
    folder = DATA / "record_sets" / version
    expected = json.loads((folder / "expected.json").read_text())
    for name, told in expected.items():
        if told["read_committed"]:
            continue
        path = written(tmp_path, f"{version}-{name}", (folder / f"{name}.bin").read_bytes())
        result = dump("--deep", "--json", path)
        assert result.exit_code == 0, result.output
        *entries, end = map(json.loads, result.stdout.splitlines())
        offsets = [record["offset"] for entry in entries for record in entry["records"]]
        assert offsets == [record[0] for record in told["records"]]
        assert end["problem"] is None
        assert end["lastOffset"] == told["next_offset"] - 1
        assert end["soundTo"] == end["size"]


def test_a_marker_says_how_its_transaction_ended(tmp_path):
    lines = dump("--deep", written(tmp_path, "t-0", recorded("transactions"))).stdout.splitlines()
    markers = [fields(line)["endTxnMarker"] for line in lines if "endTxnMarker" in line]
    assert set(markers) == {"ABORT", "COMMIT"}


def test_keys_and_values_are_shown_and_a_folder_says_whose_they_are(tmp_path):
    written(tmp_path, "flights-3", recorded("v2-none"))
    [first, *_] = dump("--deep", "--json", tmp_path).stdout.splitlines()
    record = json.loads(first)["records"][0]
    assert (record["topic"], record["partition"], record["key"], record["value"]) == ("flights", 3, "k", "v")
    assert "key: k payload: v" in dump("--deep", tmp_path).stdout


def test_a_folder_is_all_segments_in_it_and_below_it(tmp_path):
    written(tmp_path, "a-0", recorded("v0-none"))
    written(tmp_path, "b-0", recorded("v1-none"))
    (tmp_path / "a-0" / "00000000000000000000.index").write_bytes(b"not a log")
    told = [line for line in dump(tmp_path).stdout.splitlines() if line.startswith("Dumping")]
    assert [Path(line.split()[1]).parent.name for line in told] == ["a-0", "b-0"]


SOUND = recorded("transactions")
LAST_TWO = 1146
"""The byte at which the last but one entry begins."""


def damaged(at, data=SOUND):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    ("data", "sound_to", "last_offset", "problem"),
    [
        (SOUND[:-1], 1224, 17, "an entry of 78 bytes, of which 77 are there"),
        (SOUND[: 1224 + 16], 1224, 17, "16 bytes are left, and no entry is so small"),
        (damaged(LAST_TWO + 70), LAST_TWO, 16, "its CRC is "),
        (damaged(LAST_TWO + 17), LAST_TWO, 16, "its CRC is "),
        (damaged(LAST_TWO + 16), LAST_TWO, 16, "size 78 and message format 3 do not go together"),
        (SOUND + bytes(4096), len(SOUND), 18, "(the rest is zeros, as in a file that was laid out beforehand)"),
        (SOUND + b"\xff" * 100, len(SOUND), 18, "size 11 and message format -1 do not go together"),
        (SOUND + SOUND[:142], len(SOUND), 18, "offset 0 behind offset 18, and offsets must rise"),
        (struct.pack(">qiib", 0, 48, 0, 2) + SOUND[17:142], 0, -1, "do not go together"),
        (struct.pack(">q", -1) + SOUND[8:], 0, -1, "an offset that cannot be: -1"),
    ],
)
@pytest.mark.parametrize("deep", [(), ("--deep",)])
def test_a_damaged_segment_is_shown_up_to_its_last_sound_entry(data, sound_to, last_offset, problem, deep, tmp_path):
    path = written(tmp_path, "t-0", data)
    result = dump("--json", *deep, path)
    *entries, end = map(json.loads, result.stdout.splitlines())
    assert result.exit_code == 1
    assert (end["soundTo"], end["lastOffset"], end["size"]) == (sound_to, last_offset, len(data))
    assert problem in end["problem"]
    assert sum(entry["size"] for entry in entries) == sound_to
    last_line = dump(*deep, path).stdout.splitlines()[-1]
    assert last_line.startswith(f"sound to byte {sound_to} of {len(data)}, last offset {last_offset}; then: ")


@pytest.mark.parametrize("name", ["v0-none", "v1-gzip", "v2-zstd", "mixed"])
def test_no_flipped_bit_behind_an_offset_is_taken_for_sound(name, tmp_path):
    data = recorded(name)
    for at in range(8, len(data), 37):
        path = tmp_path / f"{at}.log"
        path.write_bytes(damaged(at, data))
        assert dump(path).exit_code == 1 or at_offset(data, at)


def at_offset(data, at):
    """Return whether this byte belongs to an offset or a leader epoch, which no CRC covers."""
    begin = 0
    while begin + 12 <= at:
        size = 12 + int.from_bytes(data[begin + 8 : begin + 12], "big")
        if at < begin + size:
            return data[begin + 16] == 2 and at < begin + 16
        begin += size
    return at < begin + 8


def test_a_batch_that_is_damaged_inside_is_found_with_deep(tmp_path):
    body = struct.pack(">bbi", 0, 1, -1) + struct.pack(">i", 4) + b"junk"
    message = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body
    path = written(tmp_path, "t-0", message)
    assert dump(path).exit_code == 0
    result = dump("--deep", path)
    assert result.exit_code == 1
    assert "sound to byte 0 of 30, last offset -1; then: gzip: " in result.stdout.splitlines()[-1]


def test_sequence_numbers_are_those_of_the_offsets_also_where_the_cleaner_removed_records(tmp_path):
    """As Kafka's tool shows them. The cleaner left three records of a batch of 10 with the base sequence 0."""
    left = batch([Written(n, b"k", b"v") for n in (21, 24, 29)], base_offset=20, last_offset=29, producer_id=7)
    head, *records, _ = dump("--deep", written(tmp_path, "t-0", left)).stdout.splitlines()[2:]
    assert [fields(line)["sequence"] for line in records] == ["1", "4", "9"]
    assert fields(head)["lastSequence"] == "9"


def test_a_pipe_or_a_device_is_refused_and_not_called_sound(tmp_path):
    pipe = tmp_path / "00000000000000000000.log"
    os.mkfifo(pipe)
    for place in (pipe, "/dev/null"):
        result = dump(place)
        assert result.exit_code == 1
        assert result.stderr == f"Error: {place}: is no regular file: copy the segment into one\n"


def test_a_file_of_any_name_is_shown(tmp_path):
    path = tmp_path / "\u00b2.log"
    path.write_bytes(SOUND)
    assert dump(path).exit_code == 0


def test_an_empty_segment_is_sound(tmp_path):
    result = dump(written(tmp_path, "t-0", b""))
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "sound to its end, byte 0, last offset -1")


def test_a_folder_without_segments_is_an_error_in_one_line(tmp_path):
    result = dump(tmp_path)
    assert result.exit_code == 1
    assert result.stderr == f"Error: {tmp_path}: holds no *.log file, nor does any folder below it\n"
