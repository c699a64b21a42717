"""Compiles the decoder's inner loops with numba, once per machine, and says so.

Each loop is compiled for one signature, when first needed, and stored by numba: beside the code, or where that cannot
be written in the user's cache folder, or in NUMBA_CACHE_DIR if that is set. Where nothing can be written every process
compiles anew, and so it does where others may write as well: what is stored is code, and numba runs what it finds.
numba sees that a file has changed by the file itself, not by those it imports from: a loop may only call compiled
functions of its own file, or must enclose what version_of() says of the others.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import stat
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numba

logger = logging.getLogger(__name__)

Function = TypeVar("Function", bound=Callable[..., Any])

BYTES = "Array(uint8, 1, 'C', True)"
"""In a signature: bytes that may be read only; the loops also take those that may be written."""

_njit: Any = numba.njit
_config: Any = numba.config
_OPTIONS = {"nogil": True, "error_model": "numpy"}
_pending: list[tuple[Any, str]] = []
_untrusted: set[str] = set()
_lock = threading.Lock()


def loop(signature: str) -> Callable[[Function], Function]:
    """Mark a function to be compiled for this signature by warm_up(); it must not be called before."""

    def register(function: Function) -> Function:
        if _config.DISABLE_JIT:
            return function
        try:
            dispatcher = _njit(cache=True, **_OPTIONS)(function)
        except RuntimeError:  # no place for a cache; warm_up says so
            dispatcher = _njit(**_OPTIONS)(function)
        folder = _folder(dispatcher)
        if folder is not None and others_may_write(Path(folder)):
            _untrusted.add(folder)
            dispatcher = _njit(**_OPTIONS)(function)
        _pending.append((dispatcher, signature))
        compiled: Function = dispatcher
        return compiled

    return register


def others_may_write(folder: Path) -> bool:
    """Whether a user could put something there that is neither root, nor this one, nor the owner of this code.

    This user's own group may: where every user has one, folders are made so. It also takes a folder above this one that
    such a user may write, unless only owners may delete there.
    """
    if not hasattr(os, "getuid"):
        return False
    trusted = {0, os.getuid(), Path(__file__).stat().st_uid}
    for place in (folder, *folder.parents):
        try:
            seen = place.stat()
        except FileNotFoundError:
            continue  # to be made, with the rights that its parent leaves
        is_open = seen.st_mode & stat.S_IWOTH or (seen.st_mode & stat.S_IWGRP and seen.st_gid not in {0, os.getgid()})
        is_sticky = place != folder and seen.st_mode & stat.S_ISVTX
        if seen.st_uid not in trusted or (is_open and not is_sticky):
            return True
    return False


def helper(function: Function) -> Function:
    """Mark a function that loops of the same file call; compiled with them."""
    dispatcher: Function = _njit(**_OPTIONS)(function)
    return dispatcher


def version_of(*modules: ModuleType) -> int:
    """Differs where the modules do: a loop that is compiled from several files encloses it, and is kept for all."""
    with contextlib.suppress(OSError):
        return zlib.crc32("".join(map(inspect.getsource, modules)).encode())
    return 0


def warm_up() -> float:
    """Compile what is not compiled yet, or load it from the cache; the seconds that it took.

    Takes some seconds the first time on a machine, and less than one from then on. Decoding does it by itself.
    """
    if not _pending:
        return 0.0
    with _lock:
        import legacy_consumer.wire.records.gathering  # noqa: F401 - it is not imported before Arrow is, but compiled with all

        begun = time.monotonic()
        is_kept = all(_is_stored(dispatcher) for dispatcher, _ in _pending)
        if not is_kept:
            logger.info("compiling the record decoder: some seconds, at the first use on this machine")
        for folder in sorted(_untrusted):
            logger.warning(
                "%s is not used for compiled code, since other users may write there: set NUMBA_CACHE_DIR to a folder "
                "that only you can write",
                folder,
            )
        if not _untrusted and any(_folder(dispatcher) is None for dispatcher, _ in _pending):
            logger.info("compiled code cannot be kept: set NUMBA_CACHE_DIR to a folder that can be written")
        while _pending:
            dispatcher, signature = _pending[0]
            dispatcher.compile(signature)
            dispatcher.disable_compile()
            _pending.pop(0)  # only now: who sees none pending calls them
        seconds = time.monotonic() - begun
        logger.log(logging.DEBUG if is_kept else logging.INFO, "record decoder ready after %.1f s", seconds)
        return seconds


def _is_stored(dispatcher: Any) -> bool:
    folder = _folder(dispatcher)
    return folder is not None and any(Path(folder).glob(f"*.{dispatcher.__name__}-*.nbi"))


def _folder(dispatcher: Any) -> str | None:
    folder: str | None = dispatcher.stats.cache_path
    return folder
