"""The implementation of legacy_consumer.metrics."""
