"""`legacy-consumer log dump`: shows segments as Kafka's DumpLogSegments does, without Java."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from legacy_consumer.errors import CorruptSegmentError
from legacy_consumer.fetching.fetchers import decoder_obstacle
from legacy_consumer.fetching.segment_files import opened_segment, partition_of, segments_of
from legacy_consumer.operations.cli.helpers.message_lines import json_lines
from zk_layout.model import TopicPartition
from zk_layout.plain_text import printable

if TYPE_CHECKING:
    from legacy_consumer.fetching.columnar.segments import Bytes, Entry
    from legacy_consumer.fetching.fetcher import Message

_UNKNOWN = TopicPartition("unknown", 0)


@click.command(
    epilog="""

\b
Example:
  legacy-consumer log dump --deep 00000000000000000000.log
"""
)
@click.argument(
    "places", metavar="FILE|FOLDER...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path)
)
@click.option("--deep", is_flag=True, help="Also show the records in each entry, decompressed.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object a line: each entry, then one for the file."
)
@click.pass_context
def dump(ctx: click.Context, places: Sequence[Path], deep: bool, as_json: bool) -> None:
    """Show the entries of log segments of message formats 0, 1 and 2, and verify their CRCs.

    For a folder the command reads all *.log files in it and below it. The lines are those of Kafka's DumpLogSegments.
    It shows a segment up to its last sound entry; then a line tells up to which byte and offset it is sound, and what
    is wrong there. The folder's name gives the topic and the partition. Needs legacy-consumer[fast].

    The exit code is 0 if all segments are sound, and 1 if one is damaged or cannot be read.
    """
    if obstacle := decoder_obstacle():
        raise click.ClickException(obstacle)
    sound = True
    for place in places:
        for path in segments_of(place):
            sound &= _dump_segment(path, deep=deep, as_json=as_json)
    ctx.exit(0 if sound else 1)


def _dump_segment(path: Path, *, deep: bool, as_json: bool) -> bool:
    """Print one segment. Returns: whether it is sound."""
    from legacy_consumer.fetching.columnar.segments import read_entries, read_records

    name = str(path)
    if not as_json:
        click.echo(f"Dumping {printable(name)}")
        if path.stem.isdecimal():
            click.echo(f"Starting offset: {int(path.stem)}")
    partition = partition_of(path) or _UNKNOWN
    sound_to, last_offset, problem = 0, -1, None
    with opened_segment(path) as data:
        try:
            for entry in read_entries(data, name):
                records = read_records(data, entry, partition, name) if deep else None
                _show(name, data, entry, records, as_json=as_json)
                sound_to, last_offset = entry.position + entry.size, entry.last_offset
        except CorruptSegmentError as error:
            problem = error.reason
        size = len(data)
    if as_json:
        told = {"file": name, "size": size, "soundTo": sound_to, "lastOffset": last_offset, "problem": problem}
        click.echo(json.dumps(told))
    else:
        end = f"to its end, byte {size}" if problem is None else f"to byte {sound_to} of {size}"
        click.echo(f"sound {end}, last offset {last_offset}" + (f"; then: {problem}" if problem else ""))
    return problem is None


def _show(name: str, data: Bytes, entry: Entry, records: Sequence[Message] | None, *, as_json: bool) -> None:
    from legacy_consumer.fetching.columnar.segments import read_marker

    fields = _fields_of(entry)
    if as_json:
        told = {"file": name, **fields}
        if records is not None:
            told["records"] = [json.loads(json_lines([record])) for record in records]
            if entry.is_control:
                told["endTxnMarker"] = read_marker(data, entry)
        click.echo(json.dumps(told))
        return
    click.echo(_line(fields))
    if records is not None and entry.is_control:
        click.echo(f"| offset: {entry.base_offset} endTxnMarker: {read_marker(data, entry)}")
    for record in records or ():
        click.echo(f"| {_record_line(entry, record)}")


def _fields_of(entry: Entry) -> dict[str, object]:
    """Return the fields with DumpLogSegments' names and order; it prints only the offset for formats 0 and 1."""
    told: dict[str, object]
    if entry.magic < 2:
        told = {"offset": entry.last_offset}
    else:
        told = {
            "baseOffset": entry.base_offset,
            "lastOffset": entry.last_offset,
            "count": entry.count,
            "baseSequence": entry.base_sequence,
            "lastSequence": entry.last_sequence,
            "producerId": entry.producer_id,
            "producerEpoch": entry.producer_epoch,
            "partitionLeaderEpoch": entry.leader_epoch,
            "isTransactional": entry.is_transactional,
            "isControl": entry.is_control,
        }
    return told | {
        "position": entry.position,
        entry.time_type: entry.timestamp,
        "size": entry.size,
        "magic": entry.magic,
        "compresscodec": entry.codec,
        "crc": entry.crc,
        "isvalid": True,
    }


def _record_line(entry: Entry, record: Message) -> str:
    key, value = record.key(), record.value()
    told: dict[str, object] = {
        "offset": record.offset(),
        "keySize": -1 if key is None else len(key),
        "valueSize": -1 if value is None else len(value),
        entry.time_type: record.timestamp()[1],
    }
    if entry.magic == 2:
        told["sequence"] = entry.sequence_of(record.offset())
        told["headerKeys"] = f"[{','.join(name for name, _ in record.headers() or ())}]"
    told |= {"key": _shown(key), "payload": _shown(value)}
    return _line(told)


def _shown(data: bytes | None) -> str:
    return "null" if data is None else data.decode("utf-8", "replace")


def _line(fields: dict[str, object]) -> str:
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()}
    return printable(" ".join(f"{name}: {text}" for name, text in texts.items()))
