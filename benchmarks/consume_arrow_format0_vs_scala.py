"""Message format 0 from a broker of 0.8.2.2, against that version's own ConsumerPerformance."""

from benchmarks.comparison import Comparison
from benchmarks.consuming import FORMAT_0_MESSAGES, MESSAGES_PER_S, ConsumerPerformance, ConsumingStage, Ours

COMPARISON: Comparison[ConsumingStage] = Comparison(
    name="consume_arrow_format0_vs_scala",
    about="arrow_batches() against 0.8.2.2's kafka.tools.ConsumerPerformance, format 0",
    scene=FORMAT_0_MESSAGES,
    ours=Ours("arrow"),
    peer=ConsumerPerformance("scala"),
    figure=MESSAGES_PER_S,
    unit="messages/s",
    better="higher",
    in_quick=False,
)
