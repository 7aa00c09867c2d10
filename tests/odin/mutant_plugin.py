"""A pytest plugin that seeds the bug named by ODIN_MUTANT into the runtime before any test is collected."""

from __future__ import annotations

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # Here and not above: conftest.py decides first where numba keeps its cache.
    from tests.odin.seeded_bugs import seed

    if name := os.environ.get("ODIN_MUTANT"):
        patch = pytest.MonkeyPatch()
        config.add_cleanup(patch.undo)
        seed(name, patch)
