"""The native decoder's messages: registered as ComparableMessage, so they compare and pickle like all other messages.

A message holds its columns, and so the memory of all records decoded with it. A pickled message holds only its fields.
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
    """Return all messages of these columns, in order."""
    messages = legacy_consumer_native.MessageIterator(runs)
    messages.allow(sum(len(columns) for columns, _, _ in runs))
    return list(messages)
