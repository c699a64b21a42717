"""Decodes Kafka's record sets into columns in Arrow's layout, and makes messages of rows; for the columnar fetcher.

Decoding runs without the interpreter's lock. The decoder checks every length and bounds the decompressed bytes. Any
input gives columns or one of the errors below.
"""

from collections.abc import Sequence
from typing import final

from typing_extensions import Buffer, CapsuleType, Self

__version__: str

class DamagedRecordsError(ValueError):
    """The bytes do not follow the format."""

class TooLargeError(ValueError):
    """A batch would decompress to more bytes than the limit; no damage was found."""

@final
class Columns:
    """The records of one partition, ascending by offset, in memory of their own, which slices share."""

    def __len__(self) -> int: ...
    @property
    def next_offset(self) -> int:
        """The position after all decoded entries, including gaps, control records and aborted transactions.

        So it may move although there is no record. If it equals the requested position, no entry was complete.
        """
    @property
    def has_more(self) -> bool:
        """Whether the record set holds more from next_offset on.

        Then the decoder reached a limit, or the next entry is damaged; decoding from there raises the error.
        """
    @property
    def incomplete_size(self) -> int | None:
        """If the set ends inside the first wanted entry: the bytes of a set up to that entry's end; else None.

        The entry states its own size, which is not checked; it counts as 2 GiB - 1 at most.
        """
    @property
    def nbytes(self) -> int:
        """The bytes in memory. A slice keeps the whole memory of the columns from which it was cut."""
    def slice(self, start: int, stop: int, /) -> Columns:
        """Return the records from start, included, to stop, excluded, as far as they exist."""
    def offset(self, row: int, /) -> int: ...
    def arrow(self, names: Sequence[str], topic: str, partition: int, /) -> ArrowBatch:
        """Return these columns for Arrow. Raises: ValueError for an unknown name.

        names: some of key, value, topic, partition, offset, timestamp, timestampType, headers.
        """

@final
class Message:
    """One record, made on demand. It keeps the columns in memory of which it is a row.

    It is true even if its value is empty, len() is the number of bytes of its value, and it equals a message with the
    same fields.
    """

    def topic(self) -> str: ...
    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None:
        """Return a new object at each call, like key and headers."""
    def timestamp(self) -> tuple[int, int]:
        """Return (type, ms since 1970); type 1 = create time, 2 = log append time; (0, -1) = none."""
    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Return the headers in order, None if there are none. A key may occur twice.

        Bytes of a key that are not UTF-8 become U+FFFD.
        """
    def error(self) -> None: ...
    def __len__(self) -> int: ...

@final
class MessageIterator:
    """Makes the messages of some columns on demand. Another thread can shut it between any two messages.

    An exception from outside, such as Ctrl-C, comes between two messages and never between a message and its count.
    """

    def __new__(cls, runs: Sequence[tuple[Columns, str, int]], /) -> Self:
        """runs: (columns, topic, partition). No message is allowed until allow() is called."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> Message: ...
    def __getitem__(self, number: int, /) -> Message:
        """Return one of all its messages, counted from 0, also one that it has handed out. Raises: IndexError."""
    def allow(self, most: int, /) -> bool:
        """Allow this many more messages; return False if there will be none, because it is shut or at its end."""
    def shut(self) -> int:
        """Hand out no more messages. Returns: the number handed out."""
    @property
    def handed_out(self) -> int:
        """The number of messages that it has handed out."""

@final
class ArrowBatch:
    """Columns for pyarrow.record_batch() and other users of Arrow's PyCapsule interface.

    Keys, values, offsets and timestamps are not copied.
    """

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[CapsuleType, CapsuleType]: ...
    def __arrow_c_schema__(self) -> CapsuleType: ...

def decode(
    record_set: Buffer,
    position: int,
    /,
    *,
    aborted: Sequence[tuple[int, int]] | None = None,
    max_records: int = 1_048_576,
    max_batch_bytes: int = ...,
    max_decompressed_bytes: int = 33_554_432,
    check_crcs: bool = True,
) -> Columns:
    """Decode the complete records from the position on.

    record_set: message sets of formats 0 and 1 and batches of format 2, in a row; the last one may be incomplete. No
    thread may write into it meanwhile. aborted: (producer id, first offset) of the aborted transactions in the Fetch
    response, whose records are left out; None = read uncommitted records, too. max_batch_bytes: the most bytes to which
    one batch may decompress. max_decompressed_bytes: the columns end with the batch that reaches it.

    Raises: DamagedRecordsError or TooLargeError if the first entry at the position cannot be read (a later one only
    sets has_more); MemoryError; ValueError for a record set of more than 2 GiB - 1.
    """

@final
class Decoding:
    """A record set that a thread decodes, or has decoded. It keeps the buffer while a thread may read it."""

    def result(self, meanwhile: Decoding | None = None, /) -> Columns:
        """Return the columns, the same each time. Raises: as decode.

        Waits for the thread that decodes it; decodes it on the calling thread if none has begun.
        meanwhile: a record set that the calling thread decodes before it waits, unless another thread has begun it.
        """

def decode_ahead(
    record_set: Buffer,
    position: int,
    /,
    *,
    aborted: Sequence[tuple[int, int]] | None = None,
    max_records: int = 1_048_576,
    max_batch_bytes: int = ...,
    max_decompressed_bytes: int = 33_554_432,
    check_crcs: bool = True,
) -> Decoding | None:
    """As decode, on a thread of this module. Returns: None if the process already has one Decoding more than threads.

    There is one thread for each processor but one, at least one. The first call starts them, in a forked child again.
    """

def buffer(size: int, /) -> memoryview:
    """Return a view of `size` bytes, maybe in memory of an earlier buffer that has no views. Raises: MemoryError."""

def glance(record_set: Buffer, position: int, /) -> tuple[int, int]:
    """Return where the partition continues. Reads only the heads of the entries, and does not check them.

    Returns: (the position after the last complete entry, the bytes of the first one if it is incomplete, else 0)
    """

def crc32c(data: Buffer, /) -> int:
    """Return the CRC-32C, computed by the processor's instruction if it has one."""
