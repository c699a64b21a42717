"""Iterating over a KafkaStream, message by message, against the newer Java consumer."""

from benchmarks.comparison import Comparison
from benchmarks.consuming import MESSAGES_PER_S, SMALL_MESSAGES, ConsumerPerformance, ConsumingStage, Ours

COMPARISON: Comparison[ConsumingStage] = Comparison(
    name="iterate_vs_jvm_new",
    about="for message in stream against kafka.tools.ConsumerPerformance with the newer Java consumer",
    scene=SMALL_MESSAGES,
    ours=Ours("iterate"),
    peer=ConsumerPerformance("jvm_new"),
    figure=MESSAGES_PER_S,
    unit="messages/s",
    better="higher",
    target=1.2,
)
