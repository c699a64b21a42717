"""As consume_arrow_vs_jvm_new, with messages of 1 KB: bytes weigh more, messages less."""

from benchmarks.comparison import Comparison
from benchmarks.consuming import LARGE_MESSAGES, MESSAGES_PER_S, ConsumerPerformance, ConsumingStage, Ours

COMPARISON: Comparison[ConsumingStage] = Comparison(
    name="consume_arrow_1kb_vs_jvm_new",
    about="arrow_batches() against the newer Java consumer, messages of 1,000 bytes",
    scene=LARGE_MESSAGES,
    ours=Ours("arrow"),
    peer=ConsumerPerformance("jvm_new"),
    figure=MESSAGES_PER_S,
    unit="messages/s",
    better="higher",
    in_quick=False,
)
