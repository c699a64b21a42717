"""Writes files that exist as a whole or not at all, even if the process dies during the write."""

from __future__ import annotations

import os
from pathlib import Path


def create_whole(file: Path, text: str, *, private: bool = False) -> None:
    """Write a new file and sync it to the disk; never overwrite one. private: only this user may read it.

    Raises: FileExistsError, OSError.
    """
    mode = 0o600 if private else 0o666
    out = open(file, "x", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, mode))  # noqa: SIM115 - closed below
    try:
        with out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def replace_whole(file: Path, text: str, *, private: bool = False) -> None:
    """Write a file. If one exists, it is replaced as a whole, or stays as it was if this fails.

    A symbolic link stays, and its target is replaced. A pipe or a device is written into.
    Raises: OSError.
    """
    file = Path(os.path.realpath(file))  # Path.resolve() raises RuntimeError for links that lead in a circle
    if file.exists() and not file.is_file():
        file.write_text(text, encoding="utf-8")
        return
    beside = file.with_name(f"{file.name[:200]}.{os.getpid()}.part")
    create_whole(beside, text, private=private)
    try:
        beside.replace(file)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
