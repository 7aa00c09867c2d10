"""One copy of what all ranks of a process hold alike (the virtual engine, D§7).

Replicas are bit-identical, so a process that runs several ranks as threads needs one table, not one per rank, and
what every rank decides alike needs to be computed once. Ranks meet before the one table changes, so each reads exactly
what its own replica would hold at that point of its program, whatever the arm waits for. Gradients stay each rank's
own, in its own two slots; priced time stays each rank's own too, because phases state what a rank would have done.
Tests show equal timelines and final states with and without sharing.
"""

from odin.shared.meeting import Meeting
from odin.shared.recipe import SharedRecipe
from odin.shared.table import SharedTable

__all__ = ["Meeting", "SharedRecipe", "SharedTable"]
