"""What the server that ranks are forked from has done before: imports and kernels, which take seconds of each rank."""

from harness.config import load
from harness.run import virtual, worker
from harness.run.workload import compile_kernels
from tests.odin import processes

__all__ = ["processes", "virtual", "worker"]

compile_kernels(load([]))
