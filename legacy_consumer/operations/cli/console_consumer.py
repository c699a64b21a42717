"""Prints what a member of a group is given, and commits what was printed, never more.

A batch counts as consumed when the stream is asked for the next one, or when it is committed at the end. It has been
written and flushed by then, whole. A batch that was not is never come back from, so it is delivered again.
"""

from __future__ import annotations

import contextlib
import select
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

from legacy_consumer.fetching.fetcher import Message
from legacy_consumer.member.connector import ConsumerConnector
from legacy_consumer.member.kafka_stream import KafkaStream
from legacy_consumer.operations.cli.helpers.ending import Ending
from legacy_consumer.operations.cli.helpers.message_lines import Lines
from rebalance.clock import Clock, SystemClock

_BATCH = 1000
_WAIT_S = 0.1
"""How long to wait for messages before looking whether the end is requested."""
_LOOK_S = 0.001
"""How long to look into one of several streams while others are known to flow."""


@dataclass(slots=True)
class Printer:
    """Writes batches and counts.

    printed: messages that were written and flushed. is_stuck: a batch may have been written in part.
    """

    lines: Lines
    out: BinaryIO
    printed: int = 0
    is_stuck: bool = False

    def check_reader(self) -> None:
        """While no message comes. Raises: BrokenPipeError if the reader of the pipe is gone."""
        try:
            output = self.out.fileno()
        except OSError:
            # no file of the system's
            return
        poll = select.poll()
        # for no event but the ones that are always told
        poll.register(output, 0)
        if any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
            raise BrokenPipeError

    def print(self, messages: Sequence[Message]) -> None:
        """Write and flush. Raises: OSError; BrokenPipeError if the reader of the pipe is gone."""
        data = self.lines(messages)
        self.is_stuck = True
        rest = memoryview(data)
        while rest:
            # an unbuffered output (PYTHONUNBUFFERED) takes less when a signal comes
            rest = rest[self.out.write(rest) :]
        if data:
            self.out.flush()
        self.is_stuck = False
        self.printed += len(messages)


def print_streams(
    streams: Sequence[KafkaStream],
    printer: Printer,
    ending: Ending,
    *,
    max_messages: int | None,
    timeout_ms: int | None,
    clock: Clock | None = None,
) -> None:
    """Print until the end is requested, max_messages are printed or none came for timeout_ms.

    One thread consumes all streams in turn, and takes no more messages than may still be printed.
    Raises: OSError of the output; FetchError.
    """
    clock = clock or SystemClock()
    last_message_s = clock.monotonic()
    wait_s = _WAIT_S / len(streams)
    while True:
        printed_before = printer.printed
        for stream in streams:
            size = _BATCH if max_messages is None else min(_BATCH, max_messages - printer.printed)
            if size == 0 or ending.requested:
                return
            messages = next(stream.batches(size, timeout=wait_s), None)
            if messages is None:
                return
            if messages:
                with ending.writing():
                    printer.print(messages)
        if printer.printed > printed_before:
            last_message_s = clock.monotonic()
            wait_s = _WAIT_S if len(streams) == 1 else _LOOK_S
            continue
        wait_s = _WAIT_S / len(streams)
        printer.check_reader()
        if timeout_ms is not None and clock.monotonic() - last_message_s >= timeout_ms / 1000:
            return


def commit_printed(connector: ConsumerConnector, printer: Printer) -> None:
    """Commit what was printed, if auto commit is on; nothing in hand if the last batch may be half written."""
    if connector.config.auto_commit_enable and not printer.is_stuck:
        connector.commit_offsets()


def consume_to(
    connector: ConsumerConnector,
    streams: Sequence[KafkaStream],
    printer: Printer,
    ending: Ending,
    *,
    max_messages: int | None,
    timeout_ms: int | None,
) -> None:
    """Print, and commit what was printed however that ends; a closed output is one of the ways.

    Raises: OSError, LegacyConsumerError.
    """
    try:
        with contextlib.suppress(BrokenPipeError):
            print_streams(streams, printer, ending, max_messages=max_messages, timeout_ms=timeout_ms)
    finally:
        commit_printed(connector, printer)
