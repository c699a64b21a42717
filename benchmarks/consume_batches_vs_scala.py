"""KafkaStream.batches() against the Scala consumer that it takes the place of, as Kafka's own tool measures it."""

from benchmarks.comparison import Comparison
from benchmarks.consuming import MESSAGES_PER_S, SMALL_MESSAGES, ConsumerPerformance, ConsumingStage, Ours

COMPARISON: Comparison[ConsumingStage] = Comparison(
    name="consume_batches_vs_scala",
    about="batches() against kafka.tools.ConsumerPerformance with the Scala consumer",
    scene=SMALL_MESSAGES,
    ours=Ours("batches"),
    peer=ConsumerPerformance("scala"),
    figure=MESSAGES_PER_S,
    unit="messages/s",
    better="higher",
    target=1.0,
)
