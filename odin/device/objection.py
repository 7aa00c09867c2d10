"""Which arms run on a device, and why the others do not yet.

On a device the host may not look at a gradient inside a step. Policies that cut a step by gradient norms, assign units
by what was composited, or compare a recomputed gradient decide by such a look.
"""

from __future__ import annotations

from odin.arms import Arm, Dispatch, Waits

_WAITS = {Waits.ALL, Waits.ALL_OR_NONE, Waits.URGENT, Waits.NOTHING}


def device_objection(arm: Arm) -> str:
    """What keeps an arm from running on a device; "" if nothing does."""
    if arm.waits is Waits.DDP:
        return "DistributedDataParallel is wrapped around a table in the host's memory"
    if arm.waits not in _WAITS:
        return "the host would have to read gradient norms inside a step"
    if arm.audit:
        return f"an audit makes the host read gradients inside a step; use {_without(arm)}"
    if arm.waits is Waits.NOTHING and arm.sas and arm.dispatch is not Dispatch.STATIC:
        return f"the host would have to read what a view cost inside a step; use {_without(arm)}"
    return ""


def _without(arm: Arm) -> str:
    return f"{arm.base}:audit=0:dispatch=static"
