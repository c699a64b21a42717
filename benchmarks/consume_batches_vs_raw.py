"""KafkaStream.batches() against a bare loop over confluent_kafka's consume(): what our bookkeeping costs."""

from benchmarks.comparison import Comparison
from benchmarks.consuming import MESSAGES_PER_S, SMALL_MESSAGES, ConsumingStage, Ours, Raw

COMPARISON: Comparison[ConsumingStage] = Comparison(
    name="consume_batches_vs_raw",
    about="batches() against raw confluent_kafka consume() with the same librdkafka settings",
    scene=SMALL_MESSAGES,
    ours=Ours("batches"),
    peer=Raw(),
    figure=MESSAGES_PER_S,
    unit="messages/s",
    better="higher",
    target=0.95,
)
