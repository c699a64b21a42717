"""Kafka's record sets into columns in Arrow's layout, and rows of them into messages; for the columnar fetcher.

Decoding runs without the interpreter's lock. Every length is checked, what is decompressed is bounded, and no input
ends in anything but columns or one of the errors below.
"""

from collections.abc import Sequence
from typing import final

from typing_extensions import Buffer, CapsuleType, Self

__version__: str

class DamagedRecordsError(ValueError):
    """The bytes are not what the format says."""

class TooLargeError(ValueError):
    """Nothing but that more would come out of a batch than is allowed."""

@final
class Columns:
    """The records of one partition, ascending by offset. They hold memory of their own, which slices share."""

    def __len__(self) -> int: ...
    @property
    def next_offset(self) -> int:
        """The position after all that was looked at, gaps, control records and aborted transactions, too.

        So it may move without a record. Where it equals the position that was asked for, nothing whole was there.
        """
    @property
    def has_more(self) -> bool:
        """The record set holds more from next_offset on.

        A limit was reached, or what follows is damaged, which decoding from there will say.
        """
    @property
    def incomplete_size(self) -> int | None:
        """Set when no whole entry was there but the beginning of one: how many bytes the set needs up to its end.

        The number is the entry's own and not checked; 2 GiB - 1 at most behind what comes before it.
        """
    @property
    def nbytes(self) -> int:
        """Bytes that are kept in memory, by a slice too."""
    def slice(self, start: int, stop: int, /) -> Columns:
        """The records from start to before stop, as many as there are."""
    def offset(self, row: int, /) -> int: ...
    def arrow(self, names: Sequence[str], topic: str, partition: int, /) -> ArrowBatch:
        """Columns for Arrow: key, value, topic, partition, offset, timestamp, timestampType, headers.

        Raises: ValueError for another name.
        """

@final
class Message:
    """One record, made when it is asked for. It keeps the columns that it is a row of.

    True, though its value be empty; len() is the bytes of its value; equal to another one with the same fields.
    """

    def topic(self) -> str: ...
    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None:
        """A new object at each call, as are key and headers."""
    def timestamp(self) -> tuple[int, int]:
        """(type, ms since 1970): type 0 none, with -1; 1 create time; 2 log append time."""
    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """In order, a key perhaps more than once; None if there are none. What is not UTF-8 becomes U+FFFD."""
    def error(self) -> None: ...
    def __len__(self) -> int: ...

@final
class MessageIterator:
    """The messages of some columns, each made as it is asked for. Another thread can shut it between any two of them.

    An exception from outside strikes between two messages and never between a message and its count.
    """

    def __new__(cls, runs: Sequence[tuple[Columns, str, int]], /) -> Self:
        """runs: columns, and the topic and the partition that they are of. Nothing is allowed at first."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> Message: ...
    def __getitem__(self, number: int, /) -> Message:
        """One of all its messages, from 0 on, whatever has left it. Raises: IndexError."""
    def allow(self, most: int, /) -> bool:
        """From now on so many more may leave it; False if none will, because it is shut or at its end."""
    def shut(self) -> int:
        """No message leaves it any more; how many did."""
    @property
    def handed_out(self) -> int:
        """How many messages have left it."""

@final
class ArrowBatch:
    """For pyarrow.record_batch() and whatever else knows Arrow's PyCapsule interface.

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
    """Decode the records at the position and behind it, as many as are whole.

    record_set: message sets of formats 0 and 1 and batches of format 2, one behind the other, the last one may be cut;
    nobody may write into it meanwhile. aborted: (producer id, first offset) of aborted transactions as the Fetch
    response lists them, to leave those out; None to read what is not committed, too. max_batch_bytes: what one batch
    may decompress to. max_decompressed_bytes: once so much is decompressed, the columns end with that batch.

    Raises: DamagedRecordsError or TooLargeError if what comes first at the position cannot be read (what is sound
    before it is returned, with has_more); MemoryError; ValueError for more than 2 GiB - 1.
    """

@final
class Decoding:
    """A record set that a thread decodes, or has decoded. The buffer is kept until it has, or none will begin."""

    def result(self, meanwhile: Decoding | None = None, /) -> Columns:
        """Wait for it, or decode it here if no thread has begun to. The same each time. Raises: as decode.

        meanwhile: another one, which is decoded here, unless a thread has begun to, while a thread decodes this one.
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
    """As decode, on a thread of this module's: one for each processor but one, begun with the first call, in a forked
    child anew. In a process one more of these objects may live than there are threads: beyond that it is None.
    """

def buffer(size: int, /) -> memoryview:
    """Return a view of `size` bytes, maybe in memory of an earlier buffer that has no views. Raises: MemoryError."""

def glance(record_set: Buffer, position: int, /) -> tuple[int, int]:
    """Where a partition goes on, by the heads of the entries alone, which are not checked.

    (the position after the last whole entry, bytes of the first one if not even that is whole, else 0)
    """

def crc32c(data: Buffer, /) -> int:
    """CRC-32C, by the processor's instruction where it has one."""
