"""Running pairs: what is missing is run, a failure leaves the others untouched and is retried alone with its pair."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli import main
from harness.store.store import CellStore
from harness.study.command import plan_study
from harness.study.states import pair_states
from odin.errors import InputError, RunError
from tests.scenes.toy_scene import write_toy_scene
from tests.study import studies


class Engine:
    """Stands in for ranks: records cells as done, but fails in the pairs it is told to."""

    def __init__(self, plan) -> None:
        self.plan, self.ran, self.failing, self.unloadable = plan, [], set(), set()

    def _pair(self, config):
        return next(p for p in self.plan.pairs if p.settings["seed"] == config.seed)

    def identify(self, config, cells):
        pair = self._pair(config)
        if config.seed in self.unloadable:
            raise InputError("The scene has no views.")
        assert [(c.arm, c.repeat) for c in cells] == pair.cells
        from harness.store.identity import code_version

        return pair.ids(studies.MANIFEST, code_version()), studies.MANIFEST

    def run_cells(self, config, cells, ids, store, *, refresh, starter, lock):
        pair = self._pair(config)
        self.ran.append(config.seed)
        for index in range(len(cells)):
            if config.seed in self.failing and index == 1:
                studies.record(self.plan, pair, index, reason="Rank 1 went first.")
                raise RunError("Rank 1 went first.")
            made = studies.record(self.plan, pair, index)
            assert made.cell_id == ids[index]
        return ids


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine(studies.plan(tmp_path, seeds=(0, 1, 2)))
    monkeypatch.setattr("harness.study.run.identify", made.identify)
    monkeypatch.setattr("harness.study.run.run_cells", made.run_cells)
    path = tmp_path / "tiny.yaml"
    path.write_text(
        "set: {link: none, padded: false, steps: 4}\naxes: {scene: [rooms], seed: [0, 1, 2]}\n"
        "pairs: [[barrier, predicted]]\n"
    )
    return made


def run(tmp_path: Path, *more: str) -> int:
    return main(["run", str(tmp_path / "tiny.yaml"), f"out={tmp_path}", *more])


def stamps(tmp_path: Path) -> dict[str, int]:
    return {p.parent.name: p.stat().st_mtime_ns for p in tmp_path.glob("cells/*/result.json")}


def test_a_failed_cell_leaves_the_others_and_is_retried_with_its_pair(engine: Engine, tmp_path: Path) -> None:
    engine.failing = {1}
    assert run(tmp_path) == 1
    assert engine.ran == [0, 1, 2]
    states = [[c.known.state.value for c in s.cells] for s in pair_states(engine.plan)]
    assert states == [["done"] * 4, ["done", "failed", "pending", "pending"], ["done"] * 4]
    before = stamps(tmp_path)
    engine.failing, engine.ran = set(), []
    assert main(["retry", str(tmp_path)]) == 0
    assert engine.ran == [1]
    changed = {name for name, stamp in stamps(tmp_path).items() if before.get(name) != stamp}
    version = next(iter(CellStore(tmp_path).results())).provenance.code_version
    assert changed == set(engine.plan.pairs[1].ids(studies.MANIFEST, version))
    assert (tmp_path / "studies/tiny/table.parquet").exists()
    engine.ran = []
    assert (main(["retry", str(tmp_path)]), run(tmp_path)) == (0, 0)
    assert engine.ran == []
    assert run(tmp_path, "--refresh", "seed=1") == 0
    assert engine.ran == [1]


def test_a_refresh_that_fails_is_told_and_loses_nothing(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All cells are done already and stay so; that must not pass for another process having done them."""
    assert run(tmp_path) == 0
    before = stamps(tmp_path)

    def lost(*given: object, **named: object) -> None:
        raise RunError("Rank 1 went first.")

    monkeypatch.setattr("harness.study.run.run_cells", lost)
    assert run(tmp_path, "--refresh") == 1
    assert "Rank 1 went first." in capsys.readouterr().err
    assert stamps(tmp_path) == before
    assert all(state.done for state in pair_states(engine.plan))
    assert run(tmp_path) == 0


def test_a_scene_that_cannot_be_loaded_fails_its_pair_only(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.unloadable = {0}
    assert run(tmp_path) == 1
    assert engine.ran == [1, 2]
    assert "The scene has no views." in capsys.readouterr().out
    engine.unloadable = set()
    assert run(tmp_path) == 0
    assert engine.ran == [1, 2, 0]
    assert not list((tmp_path / "studies/tiny/failed").iterdir())


def test_a_dry_run_runs_nothing(engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--dry-run") == 0
    out = capsys.readouterr().out
    assert "3 of 3 pairs are to run" in out and "unknown for 12 cells" in out
    assert engine.ran == []


def test_a_record_that_cannot_be_read_fails_its_pair_only(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path) == 0
    version = next(iter(CellStore(tmp_path).results())).provenance.code_version
    broken = engine.plan.pairs[1].ids(studies.MANIFEST, version)[0]
    record = tmp_path / "cells" / broken / "result.json"
    record.write_bytes(record.read_bytes()[:40])
    (tmp_path / "cells" / engine.plan.pairs[2].ids(studies.MANIFEST, version)[0] / "result.json").unlink()
    (tmp_path / "studies/tiny/table.parquet").unlink()
    engine.ran = []
    assert run(tmp_path) == 1
    assert engine.ran == [2]
    assert "is broken" in capsys.readouterr().err
    assert (tmp_path / "studies/tiny/table.parquet").exists()
    record.unlink()
    assert run(tmp_path) == 0
    assert engine.ran == [2, 1]


def test_a_record_that_could_not_be_read_once_is_read_again(engine: Engine, tmp_path: Path, monkeypatch) -> None:
    """A disk that did not answer, or another version of the code, must not make a cell failed for good."""
    assert run(tmp_path) == 0
    (tmp_path / "index.json").unlink(missing_ok=True)

    def refused(path: Path) -> None:
        raise InputError(f"Cannot read the record {path}: Input/output error.")

    with monkeypatch.context() as patch:
        patch.setattr("harness.store.store.load_result", refused)
        assert not all(state.done for state in pair_states(engine.plan))
    assert all(state.done for state in pair_states(engine.plan))


def test_changed_photos_make_a_study_run_again(engine: Engine, tmp_path: Path) -> None:
    """The stub knows one manifest, so what is tested is that the scene is looked at again, which then is enough."""
    scene = tmp_path / "scene"
    write_toy_scene(scene)
    words = [f"scene={scene}", "seed=0"]
    plan = plan_study(str(tmp_path / "tiny.yaml"), [*words, f"out={tmp_path}"])
    engine.plan, looked = plan, []
    identify = engine.identify
    engine.identify = lambda *given: looked.append(1) or identify(*given)

    def rerun() -> tuple[bool, int, list[int]]:
        """Whether it was pending, how often the scene was loaded, and what was trained."""
        looked.clear()
        engine.ran.clear()
        pending = not all(state.done for state in pair_states(plan, looking=True))
        assert run(tmp_path, *words) == 0
        return pending, len(looked), list(engine.ran)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.study.run.identify", lambda *given: engine.identify(*given))
        assert rerun() == (True, 1, [0])
        assert rerun() == (False, 0, [])
        photo = next((scene / "images").iterdir())
        photo.write_bytes(photo.read_bytes() + b"more")
        assert rerun() == (True, 1, [])
        assert rerun() == (False, 0, [])
        photo.unlink()
        assert rerun() == (True, 1, [])
        (scene / "sparse" / "0" / "note.txt").write_text("added")
        assert rerun() == (True, 1, [])
        (scene / "sparse/0").rename(tmp_path / "model-0")
        (scene / "sparse/0").symlink_to(tmp_path / "model-0")
        assert rerun() == (False, 0, []), "a link to the same files"
        (tmp_path / "model-0" / "note.txt").write_text("changed")
        assert rerun() == (True, 1, [])
        (tmp_path / "model-0" / "note.txt").write_text("changed again")
        assert [s.done for s in pair_states(plan)] == [True], "what is recorded is reported as it is"
        patch.setattr("socket.gethostname", lambda: "another")
        assert all(state.done for state in pair_states(plan, looking=True)), "which may have a copy of its own"
    (scene / "images").rename(tmp_path / "elsewhere")
    (scene / "sparse").rename(tmp_path / "model")
    assert rerun() == (False, 0, []), "a folder that is not here does not make records less true"
