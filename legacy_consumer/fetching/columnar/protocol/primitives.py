"""The protocol's primitive types. Integers are big-endian, lengths are signed, -1 stands for null.

The reader does not trust bytes from the wire. It compares every length with the rest of the frame before use, and
refuses an array with more entries than the rest of the frame could hold.
"""

from __future__ import annotations

import struct

from legacy_consumer.errors import MalformedResponseError

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class Reader:
    """Reads one frame from its start to its end.

    Raises, all methods: MalformedResponseError if the frame ends too early or a length is impossible.
    """

    __slots__ = ("_at", "_frame", "what")

    def __init__(self, frame: memoryview | bytes, what: str) -> None:
        self._frame = memoryview(frame)
        self._at = 0
        self.what = what
        """The name of the message, for errors."""

    @property
    def left(self) -> int:
        """The number of bytes not read yet."""
        return len(self._frame) - self._at

    def int8(self) -> int:
        """Read one byte."""
        return self.numbers(_INT8)[0]

    def int16(self) -> int:
        """Read two bytes."""
        return self.numbers(_INT16)[0]

    def int32(self) -> int:
        """Read four bytes."""
        return self.numbers(_INT32)[0]

    def int64(self) -> int:
        """Read eight bytes."""
        return self.numbers(_INT64)[0]

    def numbers(self, form: struct.Struct) -> tuple[int, ...]:
        """Read several numbers at once."""
        try:
            numbers: tuple[int, ...] = form.unpack_from(self._frame, self._at)
        except struct.error as error:
            raise self.malformed("it ends too early") from error
        self._at += form.size
        return numbers

    def boolean(self) -> bool:
        """Read one byte, 0 = false."""
        return self.numbers(_INT8)[0] != 0

    def nullable_string(self) -> str | None:
        """Read an int16 length and UTF-8 text."""
        length = self.int16()
        if length == -1:
            return None
        try:
            return str(self._slice(length, "string"), "utf-8")
        except UnicodeDecodeError as error:
            raise self.malformed("a string is not UTF-8") from error

    def string(self) -> str:
        """As nullable_string, but null is an error."""
        text = self.nullable_string()
        if text is None:
            raise self.malformed("null stands where a string has to")
        return text

    def nullable_bytes(self) -> memoryview | None:
        """Read an int32 length and the bytes, which are not copied."""
        length = self.int32()
        return None if length == -1 else self._slice(length, "byte array")

    def count(self, entry_bytes: int) -> int:
        """Read the int32 number of an array's entries, 0 for null. entry_bytes: the least size of an entry."""
        return self.nullable_count(entry_bytes) or 0

    def nullable_count(self, entry_bytes: int) -> int | None:
        """As count, but None for null."""
        number = self.int32()
        if number < -1 or number * entry_bytes > self.left:
            raise self.malformed(f"an array of {number} entries does not fit into the {self.left} bytes that are left")
        return None if number == -1 else number

    def malformed(self, reason: str) -> MalformedResponseError:
        """Return the error to raise, with the reader's place in the frame."""
        return MalformedResponseError(self.what, f"byte {self._at} of {len(self._frame)}: {reason}")

    def _slice(self, length: int, kind: str) -> memoryview:
        if not 0 <= length <= self.left:
            raise self.malformed(f"a {kind} of {length} bytes does not fit into the {self.left} that are left")
        at = self._at
        self._at = at + length
        return self._frame[at : self._at]


class Writer:
    """Builds the body of one request or response. head: its first bytes."""

    __slots__ = ("_parts",)

    def __init__(self, head: bytes = b"") -> None:
        self._parts = bytearray(head)

    def int8(self, number: int) -> None:
        """Append one byte."""
        self._parts += _INT8.pack(number)

    def int16(self, number: int) -> None:
        """Append two bytes."""
        self._parts += _INT16.pack(number)

    def int32(self, number: int) -> None:
        """Append four bytes."""
        self._parts += _INT32.pack(number)

    def int64(self, number: int) -> None:
        """Append eight bytes."""
        self._parts += _INT64.pack(number)

    def boolean(self, flag: bool) -> None:
        """Append one byte, 0 or 1."""
        self._parts += b"\x01" if flag else b"\x00"

    def nullable_string(self, text: str | None) -> None:
        """Append an int16 length, -1 for None, and UTF-8 text."""
        if text is None:
            self._parts += b"\xff\xff"
            return
        data = text.encode()
        self._parts += _INT16.pack(len(data)) + data

    def string(self, text: str) -> None:
        """Append an int16 length and UTF-8 text."""
        self.nullable_string(text)

    def byte_array(self, data: bytes) -> None:
        """Append an int32 length and the bytes."""
        self._parts += _INT32.pack(len(data)) + data

    def done(self) -> bytes:
        """Return all that was written."""
        return bytes(self._parts)
