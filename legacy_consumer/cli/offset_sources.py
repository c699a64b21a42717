"""Files of offsets on the command line; - is standard input or output."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from legacy_consumer.admin.offset_files import OffsetFile, read_offsets


def load_offsets(file: str) -> OffsetFile:
    """Read and check. Raises: BadOffsetFileError, click.ClickException if it cannot be read."""
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        text = data.decode("utf-8")
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise click.ClickException(f"nothing was changed, {file} cannot be used: line {line} is not UTF-8") from error
    return read_offsets(text, "standard input" if file == "-" else file)
