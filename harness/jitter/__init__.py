"""How far a virtual cell's time moves when phases do not take exactly what they cost: re-timing, without training."""

from harness.jitter.playing import jittered
from harness.jitter.program import Program, program_of
from harness.jitter.record import jitter_of

__all__ = ["Program", "jitter_of", "jittered", "program_of"]
