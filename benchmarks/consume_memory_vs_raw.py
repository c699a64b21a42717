"""The highest resident memory (VmHWM) of the process that consumes, interpreter and libraries included."""

from benchmarks.comparison import Comparison
from benchmarks.consuming import PEAK_MB, SMALL_MESSAGES, ConsumingStage, Ours, Raw

COMPARISON: Comparison[ConsumingStage] = Comparison(
    name="consume_memory_vs_raw",
    about="peak resident memory of a process with batches() against one with raw consume()",
    scene=SMALL_MESSAGES,
    ours=Ours("batches"),
    peer=Raw(),
    figure=PEAK_MB,
    unit="MB",
    better="lower",
)
