"""The arm `ddp`: torch's DistributedDataParallel around the same parameters, on the same link (D§6 Arms)."""

from odin.ddp.runtime import DdpPublication, DdpRuntime

__all__ = ["DdpPublication", "DdpRuntime"]
