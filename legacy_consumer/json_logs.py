"""Log lines for programs: one JSON object for each record, with the group and the consumer id of its member.

>>> handler = logging.StreamHandler()
>>> handler.setFormatter(JsonLogFormatter([connector]))  # doctest: +SKIP

    {"time":"2026-01-31T12:00:00.123Z","level":"INFO","logger":"rebalance.coordinator","group":"billing",
     "consumer_id":"billing_host-1-a","message":"billing_host-1-a: rebalanced ..."}

A record with an exception has "error" and "traceback" as well. "group" and "consumer_id" are null if the formatter
cannot tell the member of a record.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Protocol

from zk_layout.shown import shown


class _Config(Protocol):
    @property
    def group_id(self) -> str: ...


class Member(Protocol):
    """The properties of a ConsumerConnector that log lines need."""

    @property
    def consumer_id(self) -> str:
        """The present consumer id; unsubscribe() changes it, unless consumer.id is set."""
        ...

    @property
    def config(self) -> _Config:
        """The configuration of the member."""
        ...


class JsonLogFormatter(logging.Formatter):
    """Formats each record as one JSON line.

    members: the members of this process. If there is only one, a record that names no member counts as its own.
    `extra={"group": ..., "consumer_id": ...}` of a record overrides both values.
    """

    def __init__(self, members: Iterable[Member] = ()) -> None:
        super().__init__()
        self._members = tuple(members)

    def watch(self, member: Member) -> None:
        """Recognise the records of this member, too, from now on."""
        self._members = (*self._members, member)

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        message = record.getMessage()
        group, consumer_id = self._member_of(record, message)
        fields: dict[str, object] = {
            "time": f"{datetime.fromtimestamp(record.created, timezone.utc):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z",
            "level": record.levelname,
            "logger": record.name,
            "group": getattr(record, "group", group),
            "consumer_id": getattr(record, "consumer_id", consumer_id),
            "message": shown(message),
        }
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = shown(f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}")
            fields["traceback"] = self.formatException(record.exc_info)
        # ASCII without control characters: none may move a cursor or end the line; json.dumps does not escape DEL
        return json.dumps(fields, default=str).replace("\x7f", "\\u007f")

    def _member_of(self, record: logging.LogRecord, message: str) -> tuple[str | None, str | None]:
        names = [(member.config.group_id, member.consumer_id) for member in self._members]
        for group, consumer_id in names:
            # a member's log lines, and the names of its threads, begin with its consumer id
            if message.startswith(f"{consumer_id}: ") or (record.threadName or "").startswith(consumer_id):
                return group, consumer_id
        return names[0] if len(names) == 1 else (None, None)
