"""zk_messages against Spark's own Kafka connector, all columns."""

from benchmarks.comparison import Comparison
from benchmarks.consuming import ConsumingStage
from benchmarks.spark_reading import MANY_MESSAGES, MESSAGES_PER_S, ReadMessages

COMPARISON: Comparison[ConsumingStage] = Comparison(
    name="spark_messages_vs_connector",
    about="zk_messages, batch, against Spark's own Kafka connector",
    scene=MANY_MESSAGES,
    ours=ReadMessages("zk_messages"),
    peer=ReadMessages("kafka"),
    figure=MESSAGES_PER_S,
    unit="messages/s",
    better="higher",
    target=3.0,
    in_quick=False,
)
