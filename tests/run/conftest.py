"""Runs of real rank processes whose records several tests read: what costs is their start, not their steps."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.cli import main
from harness.config import load
from harness.run.spec import RunSpec
from harness.store.schema import Result
from harness.store.store import CellStore

TINY = "rooms?views=16&width=64&height=48&points=600"
PLAIN = ["link=none", "padded=false", "mirrored=false"]
STEPS = 24
EVENTS = [f"steps={STEPS}", "densify_at=[8]", "reset_at=[16]"]


def reproduce(out: Path, *words: str) -> int:
    """The command of the README; its exit code."""
    return main(["reproduce", "headline", f"out={out}", *words])


def results(out: Path) -> dict[str, Result]:
    """Records by arm, of the last repeat."""
    return {r.cell.arm: r for r in CellStore(out).results()}


@dataclass(frozen=True, kw_only=True)
class Reproduced:
    """A finished run.

    words: without the folder; scratch: names of the folders in which its ranks met
    """

    out: Path
    words: list[str]
    code: int
    printed: str
    scratch: list[str]

    def again(self) -> int:
        """The same command once more."""
        return reproduce(self.out, *self.words)


def run(out: Path, words: list[str]) -> Reproduced:
    """Run, and keep what was printed."""
    scratch: list[str] = []
    save, printed = RunSpec.save, io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(RunSpec, "save", lambda spec: scratch.append(spec.folder.name) or save(spec))
        code = reproduce(out, *words)
    return Reproduced(out=out, words=words, code=code, printed=printed.getvalue(), scratch=scratch)


@pytest.fixture(scope="session")
def padded(tmp_path_factory: pytest.TempPathFactory) -> Reproduced:
    """The README's command in its fast form, with `ddp` behind the arms that it runs by itself: every arm twice,
    padded, on an emulated link."""
    arms = ",".join([*load([]).study.arms, "ddp"])
    return run(tmp_path_factory.mktemp("padded"), [f"scene={TINY}", *EVENTS, f"arms=[{arms}]", "padding_reserve=1.2"])


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Reproduced:
    """The same training without padding and link, every arm once."""
    return run(tmp_path_factory.mktemp("plain"), [f"scene={TINY}", *EVENTS, "arms=[barrier,predicted,ddp]", *PLAIN])
