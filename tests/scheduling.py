"""What a worker of `pytest -n` runs in one piece, and what is started first.

A file is one piece: its module fixtures and cached trainings are then made once. xdist's own groups are not used:
3.8 writes them into an attribute that pytest 9.2 no longer reads, and every test goes its own way without a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

# Files that share what one of them makes, or disturb each other: padded runs, and virtual clusters of one name.
TOGETHER = {
    "tests/run/test_ddp.py": "tests/run/test_process.py",
    "tests/run/test_spread_group.py": "tests/run/test_process.py",
    "tests/slurm/test_testcluster.py": "tests/slurm/test_submit.py",
    "tests/slurm/test_ranks.py": "tests/slurm/test_submit.py",
    "tests/slurm/test_accounting.py": "tests/slurm/test_submit.py",
    "tests/slurm/test_events.py": "tests/slurm/test_submit.py",
}
# Longest first, so that no worker is left with one of them at the end.
FIRST = (
    "tests/run/test_process.py",
    "tests/pipelines/test_conformance.py",
    "tests/odin/test_model.py",
    "tests/fuzz/test_fuzz.py",
    "tests/run/test_resume.py",
    "tests/run/test_checkpoints.py",
    "tests/pipelines/test_scopes.py",
    "tests/run/test_virtual.py",
    "tests/slurm/test_submit.py",
    "tests/run/test_grendel.py",
    "tests/run/test_surfels.py",
    "tests/run/test_device_engine.py",
    "tests/run/test_exact_rooms.py",
    "tests/benchmarks/test_gate_window.py",
    "tests/mixed/test_arms.py",
    "tests/odin/test_exactness.py",
    "tests/odin/test_memory.py",
    "tests/odin/test_ordered.py",
)


def piece(nodeid: str) -> str:
    """The piece that a test belongs to: a file, relative to the repository."""
    file = nodeid.partition("::")[0]
    return TOGETHER.get(file, file)


def in_order(nodeids: Iterable[str]) -> dict[str, dict[str, bool]]:
    """Pieces as xdist's queue keeps them, piece → test → finished, in the order in which they are started."""
    pieces: dict[str, dict[str, bool]] = {}
    for nodeid in nodeids:
        pieces.setdefault(piece(nodeid), {})[nodeid] = False
    place = {name: number for number, name in enumerate(FIRST)}
    return dict(sorted(pieces.items(), key=lambda item: place.get(item[0], len(FIRST))))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """xdist's scheduler of whole files, where `--dist loadgroup` asks for one that keeps tests together."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Pieces(LoadScopeScheduling):
        """Starts pieces in our order."""

        def _split_scope(self, nodeid: str) -> str:
            return piece(nodeid)

    config.option.loadscopereorder = False  # xdist's order is by the number of tests
    return Pieces(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a worker tests lie in the order of their pieces, in which the scheduler takes them."""
    if hasattr(config, "workerinput"):
        position = {
            nodeid: number
            for number, nodeid in enumerate(
                nodeid for tests in in_order(item.nodeid for item in items).values() for nodeid in tests
            )
        }
        items.sort(key=lambda item: position[item.nodeid])
