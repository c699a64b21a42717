"""The format kafka_segments: messages out of log segments that were copied from brokers."""
