"""A kernel's bits are the same in the process that compiled it and in those that load it from the cache."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher

import pipelines.render
from tests.run.resuming import PIPELINES


def kernels() -> dict[str, Any]:
    """Every kernel of the renderers by module and name, where it is defined."""
    found = {}
    for module in pkgutil.walk_packages(pipelines.render.__path__, "pipelines.render."):
        members = vars(importlib.import_module(module.name))
        found |= {f"{module.name}.{name}": m for name, m in members.items() if isinstance(m, Dispatcher)}
    return {name: m for name, m in found.items() if m.py_func.__module__ == name.rpartition(".")[0]}


def test_a_helper_whose_arithmetic_may_be_rearranged_stands_in_its_callers_only() -> None:
    """A second copy, compiled for itself, would be what the compiling process runs."""
    helpers = {name: m.targetoptions for name, m in kernels().items() if "no_cpython_wrapper" in m.targetoptions}
    loose = {name: options for name, options in helpers.items() if options.get("fastmath")}
    assert len(loose) > 10
    assert {name for name, options in loose.items() if not options.get("forceinline")} == set()


def digests(cache: Path, name: str) -> str:
    """What a process ends with whose compiled kernels are in `cache`."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.run.resuming", "threads", name]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=600).stdout


@pytest.mark.parametrize("name", [name for name in PIPELINES if name in ("2dgs", "3dgs")])
def test_the_process_that_compiles_ends_with_the_bits_of_those_that_load(name: str, tmp_path: Path) -> None:
    cold = digests(tmp_path, name)
    assert len(cold.split()[0]) == 64
    assert list(tmp_path.rglob("*.nbc")), "nothing was compiled"
    assert digests(tmp_path, name) == cold
