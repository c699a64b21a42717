"""Feeds hostile bytes to everything that decodes what others write: `python -m tests.fuzzing --minutes 10`.

Others write znodes, requests and answers of a reset, what led groups keep, records of migrations, brokers' responses,
ZooKeeper's replies, offset files, properties and the wildcards of registrations. A decoder may refuse an input with the
errors that its row in TARGETS names, within two seconds of processor time. Anything else is a finding: it is printed,
and kept under build/fuzz. An input that once showed a defect belongs into KEPT, so that `make test` tries it for ever.
The native decoder of records has a test of hostile bytes of its own: `make native-check HOSTILE_SECONDS=600`.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import hashlib
import random
import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from legacy_consumer.config.java_properties import decode_java_properties, parse_java_properties
from legacy_consumer.errors import BrokersUnavailableError, MalformedResponseError
from legacy_consumer.fetching.columnar.protocol.api_versions import decode_api_versions
from legacy_consumer.fetching.columnar.protocol.fetch import decode_fetch
from legacy_consumer.fetching.columnar.protocol.list_offsets import decode_list_offsets
from legacy_consumer.fetching.columnar.protocol.metadata import decode_metadata
from legacy_consumer.fetching.columnar.protocol.sasl import decode_authenticate, decode_handshake
from legacy_consumer.member.resets.records import decode_answer, decode_request
from legacy_consumer.operations.admin.errors import BadOffsetFileError, DamagedRecordError
from legacy_consumer.operations.admin.migration.record import decode_record
from legacy_consumer.operations.admin.offset_files import read_offsets
from rebalance.assignors.sticky_user_data import UnreadableUserDataError, decode_sticky
from rebalance.assignors.sticky_user_data import decode_generation as decode_sticky_generation
from rebalance.errors import UnsupportedRegexError
from rebalance.led.records import decode_generation, decode_joining, decode_round, decode_subscription
from rebalance.member_kinds import registration_kind
from rebalance.subscription import subscribed_topics
from tests.support.hostile_bytes import (
    hostile_json,
    hostile_lines,
    hostile_regex,
    hostile_reply,
    hostile_response,
)
from zk_layout.codecs.znode import DECODERS
from zk_layout.errors import MalformedZnodeError, ZooKeeperError
from zk_layout.model import ConsumerRegistration, SubscriptionPattern
from zk_layout.multi_read import decode_multi_read
from zk_layout.multi_write import decode_failure, decode_set
from zk_layout.store import Stat, Znode

ROOT = Path(__file__).resolve().parent.parent
SLOW_S = 2.0
"""Of processor time: the machine may be busy."""
LARGEST_BYTES = 1_000_000

_TOPICS = ("x" * 60, "a" * 60 + "b", "topic", "", "a" * 4000)
"""Anybody makes a topic of any name in ZooKeeper."""


@dataclass(frozen=True, slots=True)
class Target:
    """One decoder. make: an input, by chance. decode: raises only what is refused."""

    make: Callable[[random.Random], bytes]
    decode: Callable[[bytes], object]
    refused: tuple[type[Exception], ...]


def _match(data: bytes) -> None:
    registration = ConsumerRegistration(SubscriptionPattern.WHITE_LIST, ((data.decode("utf-8", "replace"), 1),), 0)
    subscribed_topics(registration, _TOPICS)


def _with_version(decode: Callable[[int, bytes], object]) -> Callable[[bytes], object]:
    return lambda data: decode(data[0] % 13, data[1:]) if data else None


def _read_offset_file(data: bytes) -> object:
    return read_offsets(data.decode("utf-8", "replace"), "file")


_STAT = Stat(*(0 for _ in Stat._fields))
_RESPONSES: Mapping[str, Callable[[bytes], object]] = {
    "api versions": decode_api_versions,
    "metadata": _with_version(decode_metadata),
    "fetch": _with_version(decode_fetch),
    "list offsets": _with_version(decode_list_offsets),
    "sasl handshake": decode_handshake,
    "sasl authenticate": decode_authenticate,
}
TARGETS: Mapping[str, Target] = {
    **{
        f"znode {kind.__name__}": Target(hostile_json, lambda data, d=decode: d("/path", data), (MalformedZnodeError,))
        for kind, decode in DECODERS.items()
    },
    **{
        name: Target(hostile_json, decode, (MalformedZnodeError,))
        for name, decode in {
            "led joining": lambda data: decode_joining("/path", "a", data),
            "led round": lambda data: decode_round("/path", data),
            "led generation": lambda data: decode_generation("/path", data),
            "led subscription": decode_subscription,
        }.items()
    },
    "migration record": Target(
        hostile_json, lambda data: decode_record("g", Znode(data, _STAT)), (DamagedRecordError,)
    ),
    "kind of a member": Target(hostile_json, lambda data: registration_kind("g_h-1-a", data), ()),
    "sticky user data": Target(hostile_response, decode_sticky, (UnreadableUserDataError,)),
    "sticky generation": Target(hostile_response, decode_sticky_generation, (UnreadableUserDataError,)),
    "reply to reads": Target(hostile_reply, decode_multi_read, (ZooKeeperError,)),
    "reply to a multi": Target(hostile_reply, decode_failure, (ZooKeeperError,)),
    "reply to a set": Target(hostile_reply, decode_set, (ZooKeeperError,)),
    "reset request": Target(hostile_json, lambda data: decode_request("/path", data), (MalformedZnodeError,)),
    "reset answer": Target(hostile_json, lambda data: decode_answer("/path", data), (MalformedZnodeError,)),
    **{
        f"response {name}": Target(hostile_response, decode, (MalformedResponseError, BrokersUnavailableError))
        for name, decode in _RESPONSES.items()
    },
    "offset file": Target(hostile_lines, _read_offset_file, (BadOffsetFileError,)),
    "offset file, JSON": Target(hostile_json, _read_offset_file, (BadOffsetFileError,)),
    "properties": Target(
        hostile_lines, lambda data: parse_java_properties(decode_java_properties(data)), (ValueError,)
    ),
    "wildcard": Target(hostile_regex, _match, (UnsupportedRegexError,)),
}

KEPT: tuple[tuple[str, bytes], ...] = (
    ("znode ConsumerIdPath", b'{"version":1,"subscription":{"t":2147483647},"pattern":"static","timestamp":"1"}'),
    ("znode ConsumerIdPath", b"[" * 60_000),
    ("reset request", b'{"version":1e999}'),
    ("wildcard", b"(x+x+)+y"),
    ("wildcard", b"(a|aa)+$"),
    # re took the third power of a topic's name, which anybody makes of any length
    ("wildcard", b"[a-z]*[a-z]*[a-z]*1"),
    ("wildcard", b"x" + b"'" * 200_000 + b"x"),
    ("wildcard", b".*a" * 50_000),
    # a path that ends before it begins: the reply was read for ever, while the results of creations were read
    ("reply to a multi", bytes.fromhex("0000000100fffffffffffffff3")),
    ("offset file", "/consumers/g:h/offsets/t/0:5\u2028".encode()),
)
"""(target, input) of what was ever found."""


def trouble_with(target: Target, data: bytes) -> str | None:
    """Return why an outcome is a finding; None if the input was taken or refused as it should be."""
    began = time.thread_time()
    try:
        with _alarm():
            target.decode(data)
    except target.refused as error:
        str(error)
    except Exception:
        return traceback.format_exc(limit=-3)
    took_s = time.thread_time() - began
    return f"it took {took_s:.1f} s" if took_s > SLOW_S else None


class _TooSlowError(Exception):
    pass


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    """Ends what takes ten times too long; the interpreter's own loops and matchers look for signals."""

    def ring(*_: object) -> None:
        raise _TooSlowError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 10 * SLOW_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def inputs(seed: int) -> Iterator[tuple[str, bytes]]:
    """(target, input), without end: each target in turn."""
    chance = random.Random(seed)
    while True:
        for name, target in TARGETS.items():
            yield name, target.make(chance)[:LARGEST_BYTES]


def main() -> int:
    """Fuzz for some minutes; 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--target", default="*", help="decoders to feed, * and ? allowed")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    end = time.monotonic() + options.minutes * 60
    tried: Counter[str] = Counter()
    found: dict[tuple[str, str], bytes] = {}
    for name, data in inputs(options.seed):
        if not fnmatch.fnmatchcase(name, options.target):
            continue
        tried[name] += 1
        if (trouble := trouble_with(TARGETS[name], data)) is not None and (name, trouble) not in found:
            found[name, trouble] = data
            file = (
                ROOT / "build" / "fuzz" / f"{re.sub(r'[^a-zA-Z]+', '-', name)}-{hashlib.sha256(data).hexdigest()[:12]}"
            )
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            print(f"{name}: {data[:120]!r} (in {file.relative_to(ROOT)})\n{trouble}", flush=True)
        if time.monotonic() > end:
            break
    print(f"{sum(tried.values())} inputs for {len(tried)} decoders, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
