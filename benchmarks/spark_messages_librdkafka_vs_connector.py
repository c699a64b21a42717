"""zk_messages through librdkafka against Spark's own Kafka connector: what is left without the columnar fetcher."""

from benchmarks.comparison import Comparison
from benchmarks.consuming import ConsumingStage
from benchmarks.spark_reading import MANY_MESSAGES, MESSAGES_PER_S, ReadMessages

COMPARISON: Comparison[ConsumingStage] = Comparison(
    name="spark_messages_librdkafka_vs_connector",
    about="zk_messages through librdkafka, against Spark's own Kafka connector",
    scene=MANY_MESSAGES,
    ours=ReadMessages("zk_messages", fetcher="librdkafka"),
    peer=ReadMessages("kafka"),
    figure=MESSAGES_PER_S,
    unit="messages/s",
    better="higher",
    target=0.8,
    in_quick=False,
)
