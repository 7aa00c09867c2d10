"""A small explicit-state model of the publication protocol, on the decision functions of the runtime itself.

Nothing of the runtime is written down a second time. `record` runs `odin.runtime.Runtime` on every rank over a tiny
world (`Scenario`) whose table and slots only note what is done to them; that gives one program of actions per rank.
A rank cannot ask whether a sum has arrived, it can only wait for it, so its program is the same in every
interleaving; arms that look at the clock (`dispatch=time`) are left out. `explore` then visits every
interleaving of the programs with the link and requires `Invariant` in each state. Where one does not hold, the shortest
sequence of actions that leads there is the counterexample.
"""

from odin.model.explore import Exploration, Violation, explore
from odin.model.invariants import Invariant
from odin.model.record import Program, record
from odin.model.scenario import NEVER, Scenario

__all__ = ["NEVER", "Exploration", "Invariant", "Program", "Scenario", "Violation", "explore", "record"]
