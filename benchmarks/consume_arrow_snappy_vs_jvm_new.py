"""As consume_arrow_vs_jvm_new, compressed with snappy by the producer."""

from benchmarks.comparison import Comparison
from benchmarks.consuming import MESSAGES_PER_S, SNAPPY_MESSAGES, ConsumerPerformance, ConsumingStage, Ours

COMPARISON: Comparison[ConsumingStage] = Comparison(
    name="consume_arrow_snappy_vs_jvm_new",
    about="arrow_batches() against the newer Java consumer, compressed with snappy",
    scene=SNAPPY_MESSAGES,
    ours=Ours("arrow"),
    peer=ConsumerPerformance("jvm_new"),
    figure=MESSAGES_PER_S,
    unit="messages/s",
    better="higher",
    in_quick=False,
)
