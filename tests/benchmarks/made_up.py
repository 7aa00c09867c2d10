"""An `odin-bench` that trains nothing: it writes records of the cells that it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks import bit_identity
from harness.config import Cell, Config, expand, load
from harness.run.collect import describe
from harness.run.workload import load_workload
from harness.store.schema import Measurement, Primitives, Result
from harness.store.store import CellStore
from tests.store import samples

CODE = samples.provenance().code_version  # "this code": not hashed, because a test may run while files are edited
TINY = ["scene=rooms?views=16&width=48&height=36&points=400"]


@cache
def _loaded(words: tuple[str, ...]) -> Config:
    """Hydra takes a tenth of a second for each, and tests ask for the same ones."""
    return load(words)


def make_up(patch: pytest.MonkeyPatch, **how: Any) -> None:
    """Let benchmarks run `made_up(**how)`, under a code version that no edit changes."""
    patch.setattr(bit_identity, "load", lambda words: _loaded(tuple(words)))
    patch.setattr(bit_identity, "code_version", lambda: CODE)
    patch.setattr(bit_identity, "odin_bench", made_up(**how))


def made_up(
    *,
    code: str = CODE,
    psnr: float | None = None,
    failed: Mapping[str, str] | None = None,
    absent: Collection[str] = (),
    exit_code: int = 0,
    changes: Callable[[Cell], Mapping[str, Any]] = lambda cell: {},
) -> Callable[[Sequence[str]], int]:
    """What takes the place of `harness.cli.main`.

    code:    version that the records say they are by
    psnr:    final quality [dB] of all cells
    failed:  arm → why its cells have failed; absent: arms that leave no record
    changes: to a cell's measurement
    """

    def odin_bench(command: Sequence[str]) -> int:
        assert list(command[:2]) == ["reproduce", "headline"]
        *words, out = command[2:]
        config = _loaded(tuple(words))
        workload = load_workload(config)
        said, store = samples.provenance(code_version=code), CellStore(Path(out.removeprefix("out=")))
        for cell in expand(config):
            described = describe(cell, workload)
            if cell.arm in (failed or {}):
                result = Result.failed(described, (failed or {})[cell.arm], said)
            elif cell.arm in absent:
                continue
            elif config.scale.steps != samples.STEPS:
                result = Result.failed(described, f"made-up cells have {samples.STEPS} steps", said)
            else:
                result = Result.done(described, _measurement(cell, config, psnr, changes(cell)), said)
            store.write_result(result)
        return exit_code

    return odin_bench


def _measurement(cell: Cell, config: Config, psnr: float | None, changes: Mapping[str, Any]) -> Measurement:
    """Grown by structural events; one final state for every order of views."""
    batch, random = config.engine.global_batch, cell.arm in ("barrier", "ddp", "predicted-random")
    values: dict[str, Any] = {
        "global_batch": batch,
        "images": batch * samples.STEPS,
        "link": None,
        "padding_scale": None,
        "primitives": Primitives(initial=1000, final=1200),
        "structural_share": 0.25,
        "final_digest": ("aa" if random else "bb") * 32,
        "quality_final": samples.quality(psnr or 21.0),
    }
    return samples.measurement("quality", ranks=config.engine.ranks, **(values | changes))
