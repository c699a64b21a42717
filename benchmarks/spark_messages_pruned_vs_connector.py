"""zk_messages with a schema of value and offset against Spark's own Kafka connector, asked for the same."""

from benchmarks.comparison import Comparison
from benchmarks.consuming import ConsumingStage
from benchmarks.spark_reading import MANY_MESSAGES, MESSAGES_PER_S, ReadMessages

COMPARISON: Comparison[ConsumingStage] = Comparison(
    name="spark_messages_pruned_vs_connector",
    about="zk_messages of value and offset only, against Spark's own Kafka connector",
    scene=MANY_MESSAGES,
    ours=ReadMessages("zk_messages", pruned=True),
    peer=ReadMessages("kafka", pruned=True),
    figure=MESSAGES_PER_S,
    unit="messages/s",
    better="higher",
    target=3.5,
    in_quick=False,
)
