"""What the server that ranks are forked from has done before: imports and kernels, which take seconds of each rank."""

from benchmarks.forking import warm
from tests.odin import processes

__all__ = ["processes"]

warm()
