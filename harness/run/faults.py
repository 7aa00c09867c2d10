"""The faults of one rank (`harness.config.faults`): where they strike. Without any, nothing here does anything."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import time
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.config import Cell, expand, identity
from harness.config.faults import Fault, read_fault
from harness.run.spec import RunSpec
from harness.run.workload import Workload
from harness.store.identity import canonical_json
from odin.arms import Arm
from odin.losses import StepRecord
from odin.plan import Plan
from odin.runtime import OnStep
from odin.writing import disturb

_BLOCK = 1 << 24  # bytes that a rank out of memory takes at a time
_ROOM = 1 << 28  # and that it gets at most


class Injector:
    """Lets the faults of a spec happen on one rank."""

    def __init__(self, spec: RunSpec, rank: int) -> None:
        chosen = [(word, read_fault(word)) for word in spec.config.faults]
        self._faults = [(word, fault) for word, fault in chosen if fault.rank == rank]
        self._cells = [(cell.arm, cell.repeat) for cell in expand(spec.config)]
        self._markers = _markers(spec)
        self._here: list[tuple[str, Fault]] = []
        self._recipe: Any = None
        if any(fault.kind in ("disk", "torn") for _, fault in self._faults):
            disturb(self._write)

    def enter(self, cell: Cell) -> bool:
        """This rank begins a cell; whether a fault may strike in it."""
        place = self._cells.index((cell.arm, cell.repeat)) + 1
        self._here = [(word, fault) for word, fault in self._faults if fault.cell in (0, place)]
        return bool(self._here)

    def given(self, workload: Workload, arm: Arm) -> dict[str, Any]:
        """What `harness.run.execute.execute` is given in place of a model and a plan of its own."""
        if not self._here:
            return {}
        given: dict[str, Any] = {"recipe": self.adopt(workload.recipe())}
        for word, fault in self._here:
            if fault.kind == "partition" and self._due(word, fault):
                given["plan"] = _elsewhere(workload.plan(arm))
        return given

    def adopt(self, recipe: Any) -> Any:
        """Train this model from now on; the faults that come before the first step happen here."""
        self._recipe = recipe
        self._after(0)
        return recipe

    def watching(self, then: OnStep | None) -> OnStep | None:
        """What to call after every step: `then`, and the faults that are due."""
        if not self._here:
            return then

        def on_step(step: StepRecord) -> None:
            if then is not None:
                then(step)
            self._after(step.step + 1)

        return on_step

    def _after(self, done: int) -> None:
        """So many steps are done."""
        for word, fault in self._here:
            if fault.kind == "slow" and done > fault.step:
                time.sleep(fault.seconds)
            elif fault.kind in _STRIKES and done == fault.step and self._due(word, fault):
                _STRIKES[fault.kind](self, word)

    def _write(self, temporary: Path, place: Path) -> None:
        """A file lies beside its place."""
        for word, fault in self._here or [one for one in self._faults if one[1].cell == 0]:
            if fault.kind in ("disk", "torn") and fnmatch(place.name, fault.file) and self._due(word, fault):
                os.truncate(temporary, temporary.stat().st_size // 2)
                if fault.kind == "torn":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} (fault injected on purpose: {word})")

    def _due(self, word: str, fault: Fault) -> bool:
        """Whether it is still to happen; if it is to happen only so often, that is counted on the disk."""
        if fault.times == 0:
            return True
        self._markers.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(word.encode()).hexdigest()[:16]
        for count in range(fault.times):
            with suppress(FileExistsError):
                (self._markers / f"{name}-{count + 1}").touch(exist_ok=False)
                return True
        return False

    def _kill(self, word: str) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def _hang(self, word: str) -> None:
        while True:
            time.sleep(60)

    def _raise(self, word: str) -> None:
        raise RuntimeError(f"fault injected on purpose: {word}")

    def _exhaust(self, word: str) -> None:
        """Take memory until the limit, which is set a little above what this process has, refuses more."""
        import resource

        import psutil

        limits = resource.getrlimit(resource.RLIMIT_AS)
        held: list[NDArray[np.uint8]] = []
        with suppress(ValueError, OSError):  # a system without that limit
            resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + _ROOM, limits[1]))
        try:
            while len(held) * _BLOCK < 4 * _ROOM:
                held.append(np.ones(_BLOCK, np.uint8))
            raise MemoryError(f"fault injected on purpose: {word}")
        finally:
            held.clear()
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_AS, limits)

    def _spoil_gradient(self, word: str) -> None:
        """The next geometry gradient has a number that is none."""
        recipe, compute = self._recipe, self._recipe.backward_geometry

        def backward(frame: Any) -> Any:
            recipe.backward_geometry = compute
            gradient = compute(frame)
            gradient[:1] = float("nan")
            return gradient

        recipe.backward_geometry = backward

    def _spoil_replica(self, word: str) -> None:
        self._recipe.table.moments.p[0, 0] += 1.0


_STRIKES = {
    "kill": Injector._kill,
    "hang": Injector._hang,
    "raise": Injector._raise,
    "oom": Injector._exhaust,
    "nan": Injector._spoil_gradient,
    "replica": Injector._spoil_replica,
}


def _elsewhere(plan: Plan) -> Plan:
    """The plan with the views of every step one training view further: what another partition would look like."""
    return replace(plan, units=(plan.units + 1) % plan.train_count)


def _markers(spec: RunSpec) -> Path:
    """Where it is counted how often faults have happened, for this configuration."""
    name = hashlib.sha256(canonical_json(identity(spec.config)).encode()).hexdigest()[:16]
    return Path(spec.config.out) / "faults" / name
