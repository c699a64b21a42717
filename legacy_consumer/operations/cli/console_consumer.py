"""Prints the messages of a group's member, and commits only messages that are printed.

A batch counts as consumed when the command asks the stream for the next one, or commits it at the end. By then the
whole batch is written and flushed. If the write fails, the command never asks for the next batch, so the unwritten
one is delivered again.
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
"""Seconds to wait for messages before the next check whether the end is requested."""
_LOOK_S = 0.001
"""Seconds to wait for messages of one of several streams while others have messages."""


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
        """Check the output while no message comes. Raises: BrokenPipeError if the reader of the pipe is gone."""
        try:
            output = self.out.fileno()
        except OSError:
            # the output has no file descriptor
            return
        poll = select.poll()
        # poll reports POLLERR and POLLHUP without being asked for them
        poll.register(output, 0)
        if any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
            raise BrokenPipeError

    def print(self, messages: Sequence[Message]) -> None:
        """Write and flush the messages. Raises: OSError; BrokenPipeError if the reader of the pipe is gone."""
        data = self.lines(messages)
        self.is_stuck = True
        rest = memoryview(data)
        while rest:
            # an unbuffered output (PYTHONUNBUFFERED) writes only a part if a signal comes
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
    """Print until the end is requested, max_messages are printed or no message came for timeout_ms.

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
    """Commit the printed messages, if auto commit is on; commit nothing if the last batch may be written in part."""
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
    """Print messages, then commit what was printed, however printing ends; a closed output ends it without an error.

    Raises: OSError, LegacyConsumerError.
    """
    try:
        with contextlib.suppress(BrokenPipeError):
            print_streams(streams, printer, ending, max_messages=max_messages, timeout_ms=timeout_ms)
    finally:
        commit_printed(connector, printer)
