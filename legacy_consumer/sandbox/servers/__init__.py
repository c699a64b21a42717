"""The processes, jars and ports behind legacy_consumer.embedded."""
