"""The format kafka_segments: messages in log segments that were copied from brokers."""
