"""Mixed parallelism (D§6 Grendel): primitives are sharded by owner, views by rank; projected rows travel between."""

from odin.mixed.owners import Owners
from odin.mixed.recipe import MixedRecipe, Observed, ShardedRecipe
from odin.mixed.runtime import MixedRuntime, mixed_runtime

__all__ = ["MixedRecipe", "MixedRuntime", "Observed", "Owners", "ShardedRecipe", "mixed_runtime"]
