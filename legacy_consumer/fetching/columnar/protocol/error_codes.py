"""The brokers' error codes, and the consumer's reaction to each.

The table holds the errors of Kafka's org.apache.kafka.common.protocol.Errors that a fetcher can get. After any other
code the fetcher asks again after a pause, since the broker's error may pass.
"""

from __future__ import annotations

from enum import Enum

NONE = 0
OFFSET_OUT_OF_RANGE = 1
UNSUPPORTED_FOR_MESSAGE_FORMAT = 43


class Remedy(Enum):
    """The consumer's reaction to an error."""

    FIND_LEADER = "another broker leads, or none does yet"
    FIND_POSITION = "the position lies outside the log"
    NEW_SESSION = "the fetch session is gone"
    AGAIN = "ask again after a pause"
    TELL_USER = "asking again does not mend it"


_TABLE: dict[int, tuple[str, Remedy]] = {
    -1: ("UNKNOWN_SERVER_ERROR", Remedy.AGAIN),
    1: ("OFFSET_OUT_OF_RANGE", Remedy.FIND_POSITION),
    2: ("CORRUPT_MESSAGE", Remedy.TELL_USER),
    3: ("UNKNOWN_TOPIC_OR_PARTITION", Remedy.FIND_LEADER),
    4: ("INVALID_FETCH_SIZE", Remedy.TELL_USER),
    5: ("LEADER_NOT_AVAILABLE", Remedy.FIND_LEADER),
    6: ("NOT_LEADER_OR_FOLLOWER", Remedy.FIND_LEADER),
    7: ("REQUEST_TIMED_OUT", Remedy.AGAIN),
    8: ("BROKER_NOT_AVAILABLE", Remedy.FIND_LEADER),
    9: ("REPLICA_NOT_AVAILABLE", Remedy.FIND_LEADER),
    13: ("NETWORK_EXCEPTION", Remedy.AGAIN),
    17: ("INVALID_TOPIC_EXCEPTION", Remedy.TELL_USER),
    29: ("TOPIC_AUTHORIZATION_FAILED", Remedy.TELL_USER),
    31: ("CLUSTER_AUTHORIZATION_FAILED", Remedy.TELL_USER),
    33: ("UNSUPPORTED_SASL_MECHANISM", Remedy.TELL_USER),
    34: ("ILLEGAL_SASL_STATE", Remedy.TELL_USER),
    35: ("UNSUPPORTED_VERSION", Remedy.TELL_USER),
    43: ("UNSUPPORTED_FOR_MESSAGE_FORMAT", Remedy.TELL_USER),
    56: ("KAFKA_STORAGE_ERROR", Remedy.FIND_LEADER),
    58: ("SASL_AUTHENTICATION_FAILED", Remedy.TELL_USER),
    70: ("FETCH_SESSION_ID_NOT_FOUND", Remedy.NEW_SESSION),
    71: ("INVALID_FETCH_SESSION_EPOCH", Remedy.NEW_SESSION),
    74: ("FENCED_LEADER_EPOCH", Remedy.FIND_LEADER),
    75: ("UNKNOWN_LEADER_EPOCH", Remedy.FIND_LEADER),
    76: ("UNSUPPORTED_COMPRESSION_TYPE", Remedy.TELL_USER),
    78: ("OFFSET_NOT_AVAILABLE", Remedy.AGAIN),
    106: ("FETCH_SESSION_TOPIC_ID_ERROR", Remedy.NEW_SESSION),
}


def error_name(code: int) -> str:
    """Return Kafka's name of an error code."""
    return _TABLE[code][0] if code in _TABLE else f"error {code}"


def remedy(code: int) -> Remedy:
    """Return the reaction to an error code that is not 0."""
    return _TABLE[code][1] if code in _TABLE else Remedy.AGAIN
