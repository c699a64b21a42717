"""What a user sees on the objects that a user is given: no name there belongs to the coordinator."""

from legacy_consumer import ConsumerConnector, KafkaStream

CONNECTOR = {
    *("create_message_streams", "create_message_streams_by_filter", "set_rebalance_listener"),
    *("acknowledge", "seek", "pause", "resume", "paused", "position", "committed", "lag"),
    *("commit_offsets", "config", "fetcher_choice", "status", "progress", "vitals", "counters"),
    *("log_ends", "at_shutdown", "wait_until", "end_streams", "shutdown"),
}
STREAM = {"batches", "arrow_batches", "seek", "pause", "resume"}


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_a_connector_shows_what_users_call_and_nothing_else():
    assert public(ConsumerConnector) == CONNECTOR


def test_a_stream_shows_what_users_call_and_nothing_else():
    assert public(KafkaStream) == STREAM
