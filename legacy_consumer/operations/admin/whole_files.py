"""Files that are there as a whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import os
from pathlib import Path


def create_whole(file: Path, text: str, *, private: bool = False) -> None:
    """Write a new file and see that it is on the disk; what stands there stays. private: for this user alone.

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
    """Write a file, also over one that stands there and stays so if this fails.

    A symbolic link stays, its target is replaced. What is no file, as a pipe or a device, is written into.
    Raises: OSError.
    """
    file = file.resolve()
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
