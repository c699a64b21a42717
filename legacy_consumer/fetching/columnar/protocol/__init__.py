"""Kafka's protocol: encodes requests and decodes responses, as far as this project needs it. No I/O."""
