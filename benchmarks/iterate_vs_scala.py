"""Iterating over a KafkaStream, message by message, against the Scala consumer's iterator."""

from benchmarks.comparison import Comparison
from benchmarks.consuming import MESSAGES_PER_S, SMALL_MESSAGES, ConsumerPerformance, ConsumingStage, Ours

COMPARISON: Comparison[ConsumingStage] = Comparison(
    name="iterate_vs_scala",
    about="for message in stream against kafka.tools.ConsumerPerformance with the Scala consumer",
    scene=SMALL_MESSAGES,
    ours=Ours("iterate"),
    peer=ConsumerPerformance("scala"),
    figure=MESSAGES_PER_S,
    unit="messages/s",
    better="higher",
    target=0.9,
)
