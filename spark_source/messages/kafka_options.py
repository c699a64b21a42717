"""Options of Spark's own Kafka source that have another name in zk_messages, or do not exist in it, as the docs say.

Options with the same name in both are not here.
"""

from __future__ import annotations

KAFKA_SOURCE_OPTIONS = {
    "subscribe": "write `topics`",
    "subscribePattern": "write `whitelist`, also a Java regular expression",
    "assign": 'write `partitions`, also JSON as `{"t": [0, 2]}`',
    "kafka.bootstrap.servers": "write `zookeeper.connect`: the brokers are found in ZooKeeper",
    "kafka.group.id": "write `group.id`; a stream also commits to this group, unless `commitOffsets=false`",
    "groupIdPrefix": "has no effect here: the source joins no group at the brokers, so it needs no name",
    "kafka.isolation.level": "write `isolation.level`",
    "kafka.ssl.truststore.location": "write `ssl.ca.location` with PEM certificates: Java key stores are not read",
    "kafka.sasl.jaas.config": "write `sasl.username` and `sasl.password`",
    "startingTimestamp": "write the time as `startingOffsets`",
    "endingTimestamp": "write the time as `endingOffsets`",
    "startingOffsetsByTimestamp": "write one time for all partitions as `startingOffsets`",
    "endingOffsetsByTimestamp": "write one time for all partitions as `endingOffsets`",
    "kafkaConsumer.pollTimeoutMs": "write `fetchTimeoutMs`",
    "fetchOffset.numRetries": "has no use here: offsets are asked for again until `socket.timeout.ms`, at most 30 s",
    "fetchOffset.retryIntervalMs": "has no use here: offsets are asked for again every 200 ms",
    "topic": "is for writing, and zk_messages only reads: write messages with Spark's own Kafka sink",
}
