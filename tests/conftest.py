"""Shared fixtures: where the real captures are, and caches that tests do not leave behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from platformdirs import user_cache_dir

from harness.catalog.scenes import data_folder
from harness.store.identity import code_version
from tests.kernels import compile_together
from tests.scheduling import pytest_collection_modifyitems, pytest_xdist_make_scheduler

__all__ = ["pytest_collection_modifyitems", "pytest_xdist_make_scheduler"]  # hooks

ROOT = Path(__file__).resolve().parents[1]
# As for rank processes: numba's cache does not notice changes in inlined helpers. Set before numba is imported.
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(user_cache_dir("odin-bench")) / "numba" / code_version()))

# CI tries the same examples every time, so that a change is judged by itself; developers' runs keep searching.
# No example has a deadline: the machine may be busy with something else.
settings.register_profile("developer", deadline=None)
settings.register_profile("ci", derandomize=True, deadline=None)
# One bad example is enough to kill a mutant; it need not be a small one.
settings.register_profile(
    "mutants", derandomize=True, deadline=None, max_examples=15, phases=[Phase.generate], report_multiple_bugs=False
)
settings.load_profile("ci" if os.environ.get("CI") else "developer")


@pytest.fixture(scope="session")
def bonsai() -> Path:
    """The real capture bonsai, or a counted skip."""
    path = data_folder() / "bonsai"
    if not (path / "sparse").is_dir():
        pytest.skip(f"real capture bonsai is not in {data_folder()} (set ODIN_DATA)")
    return path


@pytest.fixture(scope="session", autouse=True)
def kernels() -> None:
    """Workers of one machine compile what they share before the first test, not each for itself."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker.startswith("gw"):
        compile_together(int(worker[2:]))
