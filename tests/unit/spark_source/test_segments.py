"""kafka_segments on bytes of real brokers: a Fetch response from offset 0 holds the bytes of the segment."""

import base64
import errno
import json
import logging
import os
import pickle
import re
from pathlib import Path

import pytest

from legacy_consumer.errors import SegmentFileError
from spark_source.errors import DamagedSegmentError
from spark_source.messages.columns import COLUMNS, request_message_columns
from spark_source.segments.options import OPTIONS, parse_segment_options
from spark_source.segments.reader import KafkaSegmentsReader
from zk_layout.errors import ConfigError

pytest.importorskip("legacy_consumer_native")

ROOT = Path(__file__).parents[3]
RECORD_SETS = ROOT / "tests" / "data" / "record_sets"
SOUND = (RECORD_SETS / "2.8.2" / "transactions.bin").read_bytes()
ALL = tuple(column.name for column in COLUMNS)


def written(folder, partition, data, name="00000000000000000000.log"):
    path = folder / partition / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def reader_of(*names, **options):
    types = {column.name: column.type.value for column in COLUMNS}
    columns = request_message_columns((name, types[name], True) for name in names)
    return KafkaSegmentsReader(parse_segment_options(options), columns)


def rows_of_tasks(*names, **options):
    """Return the rows of each task; reader and tasks are pickled in between, as by Spark."""
    reader = reader_of(*names, **options)
    tasks = pickle.loads(pickle.dumps(reader.partitions()))
    return [
        [row for batch in pickle.loads(pickle.dumps(reader)).read(task) for row in batch.to_pylist()] for task in tasks
    ]


def bytes_of(text):
    return None if text is None else base64.b64decode(text)


@pytest.mark.parametrize("version", ["0.8.2.2", "0.10.2.2", "1.1.1", "2.8.2", "3.9.1"])
def test_rows_equal_the_recorded_messages_of_a_consumer(version, tmp_path):
    expected = json.loads((RECORD_SETS / version / "expected.json").read_text())
    expected = {name: told["records"] for name, told in expected.items() if not told["read_committed"]}
    for name in expected:
        written(tmp_path, f"{name}-3", (RECORD_SETS / version / f"{name}.bin").read_bytes())
    tasks = rows_of_tasks(*ALL, path=str(tmp_path))
    assert len(tasks) == len(expected)
    for rows in filter(None, tasks):
        told = expected.pop(rows[0]["topic"])
        assert {row["partition"] for row in rows} == {3}
        assert [
            (
                row["offset"],
                row["timestampType"] + 1,
                row["key"],
                row["value"],
                [(each["key"], each["value"]) for each in row["headers"] or []],
            )
            for row in rows
        ] == [
            (offset, kind, bytes_of(key), bytes_of(value), [(own, bytes_of(v)) for own, v in headers or []])
            for offset, kind, _, key, value, headers in told
        ]
        assert [row["timestamp"] and round(row["timestamp"].timestamp() * 1000) for row in rows] == [
            time if kind else None for _, kind, time, *_ in told
        ]
    assert not any(expected.values())


def test_small_entries_are_decoded_together_and_come_in_order(tmp_path, monkeypatch):
    written(tmp_path, "t-0", SOUND)
    whole = rows_of_tasks("offset", "value", path=str(tmp_path))
    monkeypatch.setattr("legacy_consumer.fetching.columnar.segments._PIECE_BYTES", 200)
    assert rows_of_tasks("offset", "value", path=str(tmp_path)) == whole


def test_each_file_is_a_task_whichever_way_it_is_named(tmp_path):
    first = written(tmp_path, "a-0", SOUND)
    written(tmp_path, "a-0", b"", "00000000000000000019.log")
    written(tmp_path, "a-0", b"no log", "00000000000000000000.index")
    written(tmp_path, "b-0", SOUND)

    def files(**options):
        return [Path(task.path).relative_to(tmp_path).parts for task in reader_of("value", **options).partitions()]

    a = [("a-0", "00000000000000000000.log"), ("a-0", "00000000000000000019.log")]
    b = [("b-0", "00000000000000000000.log")]
    assert files(path=str(tmp_path)) == a + b
    assert files(path=str(first)) == files(path=f"file:{first}") == files(path=f"file://{first}") == a[:1]
    assert files(path=f"{tmp_path}/a-*") == a
    assert files(paths=json.dumps([str(tmp_path / "b-0"), str(first), str(first)])) == a[:1] + b
    assert files(paths=json.dumps([str(tmp_path / "b-0"), f"{tmp_path}/a-0/../b-0"])) == b
    assert [len(rows) for rows in rows_of_tasks("value", path=str(tmp_path / "a-0"))] == [15, 0]


def test_a_folder_behind_a_link_is_read_once(tmp_path):
    written(tmp_path / "disk", "copy", SOUND)
    written(tmp_path / "logs", "b-0", SOUND)
    (tmp_path / "logs" / "a-0").symlink_to(tmp_path / "disk" / "copy")
    (tmp_path / "logs" / "all").symlink_to(tmp_path / "logs")
    (tmp_path / "logs" / "a").symlink_to(tmp_path / "logs" / "b-0")
    tasks = reader_of("value", path=str(tmp_path / "logs")).partitions()
    assert [str(task.partition) for task in tasks] == ["a/0", "b/0"]


def test_a_folder_that_cannot_be_listed_is_no_empty_one(tmp_path, monkeypatch):
    written(tmp_path, "a-0", SOUND)
    written(tmp_path, "b-0", SOUND)
    scandir = os.scandir

    def refused(path):
        if str(path).endswith("b-0"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(SegmentFileError, match=r"b-0: cannot be listed: Permission denied"):
        reader_of("value", path=str(tmp_path)).partitions()


LAST_TWO = 1146
"""The byte at which the last but one entry of SOUND begins."""


@pytest.mark.parametrize("piece_bytes", [1, 4 << 20])
@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (SOUND[:-1], "sound to byte 1224, last offset 17; then: an entry of 78 bytes, of which 77 are there"),
        (SOUND[:1200] + b"?" + SOUND[1201:], f"sound to byte {LAST_TWO}, last offset 16; then: its CRC is "),
        (SOUND[:1224] + bytes(100), "sound to byte 1224, last offset 17; then: size 12 and message format 0 do not"),
    ],
)
def test_a_damaged_file_fails_or_is_read_up_to_the_damage(data, problem, piece_bytes, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("legacy_consumer.fetching.columnar.segments._PIECE_BYTES", piece_bytes)
    path = written(tmp_path, "t-0", data)
    with pytest.raises(DamagedSegmentError, match=re.escape(f"{path}: {problem}")) as caught:
        rows_of_tasks("offset", path=str(path))
    assert str(caught.value).endswith("; set damagedSegments=stop to read what lies before")
    with caplog.at_level(logging.WARNING):
        [rows] = rows_of_tasks("offset", path=str(path), damagedSegments="stop")
    written(tmp_path, "sound-0", SOUND)
    [sound] = rows_of_tasks("offset", path=str(tmp_path / "sound-0"))
    assert rows == [row for row in sound if row["offset"] <= (16 if "16;" in problem else 17)]
    assert f"{path}: {problem}" in caplog.text


def test_a_batch_that_is_damaged_inside_is_reported_too(tmp_path, caplog):
    """A sound message, then a compressed message with a right CRC and with content that is not compressed data."""
    import struct
    import zlib

    def message(offset, attributes, value):
        body = struct.pack(">bbi", 0, attributes, -1) + struct.pack(">i", len(value)) + value
        return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body

    path = written(tmp_path, "t-0", message(5, 0, b"v") + message(6, 1, b"junk"))
    [rows] = rows_of_tasks("offset", path=str(path), damagedSegments="stop")
    assert rows == [{"offset": 5}]
    assert f"{path}: sound to byte 27, last offset 5; then: gzip: " in caplog.text


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "path: is required: name the folder of the segments, load(FOLDER)"),
        ({"path": ""}, "path: is required"),
        ({"path": "hdfs://h/logs"}, "hdfs: is not read: copy the segments"),
        ({"path": "/logs", "damagedSegments": "skip"}, "must be fail or stop"),
        ({"path": "/logs", "includeHeaders": "1"}, "must be true or false"),
        ({"path": "/logs", "zookeeper.connect": "h:1"}, "kafka_segments has no use for it"),
        (
            {"path": "/logs", "isolation.level": "read_committed"},
            "whether a transaction was aborted may stand in another",
        ),
        ({"path": "/logs", "rdkafka.debug": "all"}, "speaks to no broker"),
        ({"path": "/logs", "damagedsegment": "stop"}, "did you mean damagedSegments?"),
        ({"paths": "/a,/b"}, "give several paths as load([A, B])"),
    ],
)
def test_options_that_cannot_be_are_refused(options, complaint):
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        parse_segment_options(options)


def test_options_are_found_whatever_their_case():
    assert parse_segment_options({"PATH": "/logs", "damagedsegments": "STOP"}).paths == ("/logs",)
    assert {option.name for option in OPTIONS} == {"path", "damagedSegments", "includeHeaders"}


def test_files_that_cannot_be_read_as_asked_are_refused(tmp_path, caplog):
    def reason(path):
        with pytest.raises(SegmentFileError) as caught:
            rows_of_tasks("value", path=str(path))
        return str(caught.value)

    assert reason(tmp_path / "none") == f"{tmp_path}/none: there is no such file or folder"
    assert reason(tmp_path) == f"{tmp_path}: holds no *.log file, nor does any folder below it"
    deleted = written(tmp_path, "t-0.0123456789abcdef0123456789abcdef-delete", SOUND)
    assert reason(tmp_path).endswith("all segments are of partitions that were deleted")
    assert f"{deleted} is not read" in caplog.text
    for folder in ("copied", "backup-20261128143000", "t-00", "t-٣"):
        stray = written(tmp_path / folder, folder, SOUND)
        told = f"{stray}: its folder tells no topic and partition: name it as brokers do"
        assert reason(tmp_path / folder).startswith(told)
