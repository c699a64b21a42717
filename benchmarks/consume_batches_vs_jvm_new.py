"""KafkaStream.batches() against the newer Java consumer, which has no groups in ZooKeeper: how near the best is."""

from benchmarks.comparison import Comparison
from benchmarks.consuming import MESSAGES_PER_S, SMALL_MESSAGES, ConsumerPerformance, ConsumingStage, Ours

COMPARISON: Comparison[ConsumingStage] = Comparison(
    name="consume_batches_vs_jvm_new",
    about="batches() against kafka.tools.ConsumerPerformance with the newer Java consumer",
    scene=SMALL_MESSAGES,
    ours=Ours("batches"),
    peer=ConsumerPerformance("jvm_new"),
    figure=MESSAGES_PER_S,
    unit="messages/s",
    better="higher",
    target=1.2,
)
