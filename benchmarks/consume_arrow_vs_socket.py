"""KafkaStream.arrow_batches() against a loop that receives the same responses and throws them away."""

from benchmarks.comparison import Comparison
from benchmarks.consuming import MESSAGES_PER_S, SMALL_MESSAGES, ConsumingStage, Ours, Socket

COMPARISON: Comparison[ConsumingStage] = Comparison(
    name="consume_arrow_vs_socket",
    about="arrow_batches() against reading the same bytes from the socket",
    scene=SMALL_MESSAGES,
    ours=Ours("arrow"),
    peer=Socket(),
    figure=MESSAGES_PER_S,
    unit="messages/s",
    better="higher",
    target=0.3,
)
