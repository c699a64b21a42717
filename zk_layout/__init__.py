"""Kafka's data in ZooKeeper, and nothing else: records, paths, codecs, and the seam to a ZooKeeper."""
