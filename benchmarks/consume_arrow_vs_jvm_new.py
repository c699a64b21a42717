"""KafkaStream.arrow_batches() against the newer Java consumer."""

from benchmarks.comparison import Comparison
from benchmarks.consuming import MESSAGES_PER_S, SMALL_MESSAGES, ConsumerPerformance, ConsumingStage, Ours

COMPARISON: Comparison[ConsumingStage] = Comparison(
    name="consume_arrow_vs_jvm_new",
    about="arrow_batches() against kafka.tools.ConsumerPerformance with the newer Java consumer",
    scene=SMALL_MESSAGES,
    ours=Ours("arrow"),
    peer=ConsumerPerformance("jvm_new"),
    figure=MESSAGES_PER_S,
    unit="messages/s",
    better="higher",
    target=5,
)
