"""Log segments that were copied from a broker: their files, their partitions, and their bytes."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from legacy_consumer.errors import SegmentFileError
from zk_layout.model import TopicPartition
from zk_layout.paths import number_of

if TYPE_CHECKING:
    from legacy_consumer.fetching.columnar.segments import Bytes


def segments_of(place: Path) -> list[Path]:
    """Return a file itself, or all *.log files in a folder and below it, sorted; links are followed.

    Raises: SegmentFileError, also if a folder below cannot be listed, whose segments would be missing unnoticed.
    """
    if not place.is_dir():
        return [place]
    found: list[Path] = []
    seen: set[str] = set()
    places = [place]
    for start in places:
        for folder, below, names in os.walk(start, onerror=_refuse):
            real = os.path.realpath(folder)
            if real in seen:
                below.clear()
                continue
            seen.add(real)
            found += [Path(folder, name) for name in names if name.endswith(".log")]
            # links are walked last, so that a folder is listed by its own name and not by that of a link to it
            places += [link for name in below if (link := Path(folder, name)).is_symlink()]
    if not found:
        raise SegmentFileError(str(place), "holds no *.log file, nor does any folder below it")
    return sorted(found)


def _refuse(error: OSError) -> NoReturn:
    raise SegmentFileError(str(error.filename), f"cannot be listed: {error.strerror}") from error


def partition_of(path: Path) -> TopicPartition | None:
    """Return the partition of a file by its folder, `flights-0` for partition 0 of flights; None for another name."""
    topic, _, number = path.absolute().parent.name.rpartition("-")
    partition = number_of(number)
    return TopicPartition(topic, partition) if topic and partition is not None else None


@contextmanager
def opened_segment(path: Path) -> Iterator[Bytes]:
    """Map the file's bytes into memory; b"" for an empty file, which cannot be mapped. Raises: SegmentFileError."""
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):
            # a pipe or a device has size 0 whatever it contains, and opening it may block for ever
            raise SegmentFileError(str(path), "is no regular file: copy the segment into one")
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if state.st_size else None
    except OSError as error:
        raise SegmentFileError(str(path), f"cannot be read: {error.strerror}") from error
    if mapped is None:
        yield b""
        return
    with mapped:
        yield mapped
