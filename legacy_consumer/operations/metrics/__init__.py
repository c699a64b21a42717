"""The metrics behind legacy_consumer.metrics."""
