"""Re-timing: the runtime once more on what a trajectory recorded, without its numerics (D§7).

Bit-identical arms train the same values, so one of them is run and the others are only timed: the same runtime,
policies, cuts, link and clock, on recorded scopes and recorded amounts of work. A test shows that a re-timed arm has
the timeline of the arm that is run.
"""

from odin.replay.recipe import ReplayLedger, ReplayRecipe
from odin.replay.record import RecordingRecipe
from odin.replay.trajectory import Trajectory, ViewWork

__all__ = ["RecordingRecipe", "ReplayLedger", "ReplayRecipe", "Trajectory", "ViewWork"]
