"""The public names of a connector and of a stream: the user's code calls them, and none is the coordinator's."""

import builtins
import re

import legacy_consumer
from legacy_consumer import ConsumerConnector, KafkaStream, SimpleConsumer

CONNECTOR = {
    *("create_message_streams", "create_message_streams_by_filter", "set_rebalance_listener"),
    *("consumer_id", "acknowledge", "seek", "pause", "resume", "paused", "position", "committed", "lag"),
    *("commit_offsets", "config", "fetcher_choice", "status", "progress", "vitals", "counters"),
    *("log_ends", "at_shutdown", "wait_until", "end_streams", "unsubscribe", "shutdown"),
}
STREAM = {"batches", "arrow_batches", "seek", "pause", "resume"}


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_a_connector_shows_what_users_call_and_nothing_else():
    assert public(ConsumerConnector) == CONNECTOR


def test_a_stream_shows_what_users_call_and_nothing_else():
    assert public(KafkaStream) == STREAM


def test_the_errors_that_public_calls_name_can_be_imported_from_the_package():
    told = set()
    for kind in (ConsumerConnector, KafkaStream, SimpleConsumer):
        for name in public(kind):
            told |= set(re.findall(r"\b[A-Z]\w+Error\b", getattr(kind, name).__doc__ or ""))
    builtin = {name for name in told if hasattr(builtins, name)}
    assert len(told - builtin) > 10
    assert told - builtin <= set(legacy_consumer.__all__)
