"""Kafka's protocol, as far as a consumer outside of Kafka's own groups needs it: bytes <-> records, no I/O."""
