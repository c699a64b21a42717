"""The native decoder's messages, which are made when they are asked for: comparable with every other kind of message.

One that is kept keeps its columns, and with them the memory of the record set; one that is pickled leaves them.
"""

from __future__ import annotations

import copyreg
from collections.abc import Sequence

import legacy_consumer_native

from legacy_consumer.fetching.comparable_message import ComparableMessage
from legacy_consumer.fetching.fetcher import Message

ComparableMessage.register(legacy_consumer_native.Message)
copyreg.pickle(legacy_consumer_native.Message, ComparableMessage.__reduce__)  # type: ignore[arg-type]


def messages_of(runs: Sequence[tuple[legacy_consumer_native.Columns, str, int]]) -> list[Message]:
    """All messages of some columns, in order."""
    messages = legacy_consumer_native.MessageIterator(runs)
    messages.allow(sum(len(columns) for columns, _, _ in runs))
    return list(messages)
