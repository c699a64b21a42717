# ruff: noqa: SLF001 - the codes of librdkafka's own errors begin with an underscore
"""Typed handles over confluent_kafka that raise this project's errors; only the files client*.py import it.

Measured with confluent-kafka 2.16: calls on one handle are serialised, so a call from another thread waits for a
running consume(). Therefore each handle belongs to one thread at a time; fetcher.py ensures that.
"""

from __future__ import annotations

import ctypes
import logging
import os
import re
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import confluent_kafka
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from legacy_consumer.config.properties import PASSED_TO_LIBRDKAFKA
from legacy_consumer.errors import BrokerRefusedError, FetchError, KafkaError
from zk_layout.errors import ConfigError
from zk_layout.loggers import safe_logger

logger = safe_logger(__name__)

RdMessage: TypeAlias = "confluent_kafka.Message[bytes, bytes]"
Settings: TypeAlias = Mapping[str, str | int | float | bool]
Callbacks: TypeAlias = Mapping[str, Callable[..., None]]

_Code = confluent_kafka.KafkaError
_REFUSED = {_Code._AUTHENTICATION, _Code.SASL_AUTHENTICATION_FAILED, _Code._SSL}
_REFUSALS_IN_A_ROW = 3
"""Refusals of a broker that count as final: a broker that shuts down may break off a handshake."""
_STATE = re.compile(r" ?\(after \d+ms in state [^)]*\)")
_HUSHED = {"CONFWARN", "AUTOCREATE"}
"""Log lines for level DEBUG: settings that old brokers need are deprecated; brokers before 0.11 may create topics."""
_SAME_AGAIN_S = 30.0
_LINES_REMEMBERED = 64
_FORGOTTEN = re.compile(r"partition count changed from \d+ to 0\b")
"""A broker that has just started knew no topic; librdkafka reports that only in its log."""


class _Log:
    """Gets librdkafka's log lines; confluent_kafka calls log() as a Logger's."""

    def __init__(self, on_forgotten: Callable[[], None]) -> None:
        self._said: dict[str, float] = {}
        self._on_forgotten = on_forgotten

    def log(self, level: int, message: str, *args: object) -> None:
        # a lost connection is no error yet
        facility = str(args[0]) if args else ""
        if facility == "PARTCNT" and _FORGOTTEN.search(str(args)):
            self._on_forgotten()
        hushed = facility in _HUSHED or self._was_said(_STATE.sub("", str(args)))
        logger.log(logging.DEBUG if hushed else min(level, logging.WARNING), message, *args)

    def _was_said(self, line: str) -> bool:
        """Return whether the line was logged recently: a broker that refuses us causes twenty lines a second."""
        now = time.monotonic()
        if now - self._said.get(line, -_SAME_AGAIN_S) < _SAME_AGAIN_S:
            return True
        if len(self._said) >= _LINES_REMEMBERED:
            self._said.clear()
        self._said[line] = now
        return False


class Client:
    """The common part of consumers and producers: errors that concern no partition."""

    def __init__(self, settings: Settings) -> None:
        _clients.add(self)
        self.bootstrap_servers = str(settings.get("bootstrap.servers", ""))
        self.brokers_down = False
        """No broker can be reached; reset when a message comes."""
        self.may_stand_still = False
        """All brokers were unreachable: a consumer may never fetch again. A message fetched after that resets it."""
        self.has_forgotten = False
        """A broker reported a topic without partitions: librdkafka may never fetch it again (its issue 4916)."""
        self.refusal: str | None = None
        """Why a broker refused this client; None if none did."""
        self._refusals = 0
        self._oversize: str | None = None

    def lasting_failure(self) -> KafkaError | None:
        """Return a lasting error that keeps us from the brokers, or None; later calls return the error again.

        No broker accepts us, or a response is larger than the limit, and librdkafka would repeat the request for ever.
        """
        if self._oversize is not None:
            oversize, self._oversize = self._oversize, None
            return FetchError(None, f"{oversize}, as rdkafka.receive.message.max.bytes")
        if self.brokers_down and self._refusals >= _REFUSALS_IN_A_ROW:
            self._refusals = 0
            return BrokerRefusedError(self.bootstrap_servers, self.refusal or "")
        return None

    def note_forgotten(self) -> None:
        """Note that a broker reported a topic without partitions."""
        self.has_forgotten = True

    def on_error(self, error: confluent_kafka.KafkaError) -> None:
        """Note an error that concerns no partition; librdkafka calls this while it is polled."""
        if error.code() == _Code._ALL_BROKERS_DOWN:
            if not self.brokers_down:
                # librdkafka's text counts other brokers than these: "0/2 brokers are down"
                logger.warning("no broker can be reached")
            self.brokers_down = self.may_stand_still = True
        elif error.code() in _REFUSED:
            self._refusals += 1
            reason = _STATE.sub("", error.str())
            if self.refusal is None:
                logger.warning("a broker refuses the connection: %s", reason)
            self.refusal = reason
        elif error.code() == _Code._BAD_MSG and "receive.message.max.bytes" in error.str():
            self._oversize = _STATE.sub("", error.str())
        else:
            if error.code() == _Code._TRANSPORT:
                self._refusals = 0
            logger.debug("%s: %s", error.name(), error.str())


_clients: weakref.WeakSet[Client] = weakref.WeakSet()
_HANDLES = (confluent_kafka.Consumer, confluent_kafka.Producer, AdminClient)


def _keep_handles() -> None:
    """Let no handle be freed in a forked child, not even at its end.

    librdkafka would wait for ever for threads that the child does not have, or end the process with an assertion.
    """
    for client in list(_clients):
        for handle in vars(client).values():
            if isinstance(handle, _HANDLES):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


os.register_at_fork(after_in_child=_keep_handles)

_Handle = TypeVar("_Handle", confluent_kafka.Consumer, confluent_kafka.Producer, AdminClient)


def open_handle(
    kind: type[_Handle], settings: Settings, callbacks: Callbacks, on_forgotten: Callable[[], None] = lambda: None
) -> _Handle:
    """Construct a handle. callbacks: by confluent_kafka's names. on_forgotten: called if a topic lost its partitions.

    Raises: ConfigError for a setting that librdkafka does not accept.
    """
    try:
        given: dict[str, Any] = {**settings, **callbacks}
        return kind(given, logger=_Log(on_forgotten))
    except KafkaException as error:
        raise _as_config_error(error, settings) from error
    except TypeError as error:
        # confluent_kafka turns Ctrl-C during the construction into a TypeError about a property's name; names are texts
        # here, so the error has no other cause
        if "property name" in str(error):
            raise KeyboardInterrupt from error
        raise


def check_settings(settings: Settings) -> None:
    """Check that librdkafka accepts the settings, without connecting. Raises: ConfigError."""
    nowhere = {**settings, "bootstrap.servers": ""}
    if "group.id" in settings:
        open_handle(confluent_kafka.Consumer, nowhere, {}).close()
    else:
        open_handle(AdminClient, nowhere, {})


def _as_config_error(error: KafkaException, settings: Settings) -> ConfigError:
    reason = " ".join(error.args[0].str().split())  # it may quote a value of several lines
    told = reason.replace("SASL mechanism", "sasl.mechanism")
    known = sorted({*settings, *PASSED_TO_LIBRDKAFKA}, key=lambda n: (-len(n), n))
    name = next((n for n in known if n in told), "rdkafka")
    if name != "rdkafka" and not name.startswith(("ssl.", "sasl.", "enable.ssl.")):
        name = f"rdkafka.{name}"
    return ConfigError(name, None, f"librdkafka says: {reason}")
