"""Study files and their expansion: typed, in ABBA order by seed, with errors that name what was meant."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.study.file import STUDIES, load_study, read_study
from harness.study.matrix import expand_study
from harness.study.plan import StudyPlan
from odin.errors import InputError

TINY: Mapping[str, Any] = {
    "set": {"link": "none", "padded": False, "steps": 3},
    "axes": {"scene": ["rooms", "orbit"], "pipeline": ["3dgs", "2dgs"], "seed": [0, 1]},
    "pairs": [["barrier", "quality"], ["barrier", "predicted"]],
}


def test_the_matrix_is_the_product_in_order() -> None:
    places = expand_study(read_study("tiny", TINY))
    assert len(places) == 2 * 2 * 2 * 2
    assert places[0].where == {"scene": "rooms", "pipeline": "3dgs", "seed": "0"}
    assert [p.arms for p in places[:2]] == [("barrier", "quality"), ("barrier", "predicted")]
    last = places[-1].config
    assert (last.scene.path, last.pipeline.name, last.seed, last.scale.steps) == ("orbit", "2dgs", 1, 3)
    assert last.pipeline.lambda_normal == 0.05  # the option as a whole, not only its name
    assert places[0].config.pipeline.lambda_normal is None
    assert (last.link.name, last.engine.padded) == ("none", False)


def test_odd_seeds_start_with_the_other_arm() -> None:
    """a, b, b, a and b, a, a, b: over seeds no arm is always the first."""
    plan = StudyPlan.of("tiny", expand_study(read_study("tiny", TINY)))
    even, odd = (next(p for p in plan.pairs if p.settings["seed"] == seed) for seed in (0, 1))
    assert even.cells == [("barrier", 0), ("quality", 0), ("quality", 1), ("barrier", 1)]
    assert odd.cells == [("quality", 0), ("barrier", 0), ("barrier", 1), ("quality", 1)]
    assert (odd.baseline, odd.others) == ("barrier", ["quality"])


def test_words_narrow_axes_and_set_the_rest() -> None:
    places = expand_study(read_study("tiny", TINY), ["seed=2,3,4", "scene=rooms", "steps=7", "out=here"])
    assert {p.where["seed"] for p in places} == {"2", "3", "4"}
    assert {p.config.seed for p in places} == {2, 3, 4}
    assert {(p.config.scene.path, p.config.scale.steps, p.config.out) for p in places} == {("rooms", 7, "here")}


def test_settings_may_vary_together() -> None:
    axes = {"capture": [{"scene": "/d/bonsai", "images": "images_4"}, {"scene": "rooms"}]}
    places = expand_study(read_study("captures", dict(TINY, axes=axes)))
    assert [(p.config.scene.path, p.config.scene.images) for p in places[::2]] == [
        ("/d/bonsai", "images_4"),
        ("rooms", "images"),
    ]
    with pytest.raises(InputError, match="varies scene together with other settings"):
        expand_study(read_study("captures", dict(TINY, axes=axes)), ["scene=rooms"])


def test_a_part_of_the_matrix_is_skipped_with_a_reason() -> None:
    skip = [{"scene": "orbit", "pipeline": "2dgs", "reason": "no normals"}]
    places = expand_study(read_study("tiny", dict(TINY, skip=skip)))
    skipped = [p for p in places if p.skipped]
    assert len(skipped) == 4
    assert {(p.where["scene"], p.where["pipeline"], p.skipped) for p in skipped} == {("orbit", "2dgs", "no normals")}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"axis": {}}, "no part 'axis'. The nearest valid one is 'axes'"),
        ({"set": {"stpes": 3}}, "nearest valid one is 'steps'"),
        ({"set": {"out": "x"}}, "out cannot be set in a study"),
        ({"axes": {"sed": [1]}}, "nearest valid one is 'seed'"),
        ({"axes": {"seed": []}}, "axis seed needs at least one value"),
        ({"axes": {"seed": [1, 1]}}, "none twice"),
        ({"axes": {"seed": 1}}, "seed is a list like"),
        ({"axes": {"seed": ["one"]}}, "seed=one is refused"),
        ({"axes": {"pipeline": ["4dgs"]}}, "Options of pipeline"),
        ({"axes": {"study.arms": [["barrier"]]}}, "that is said by pairs"),
        ({"pairs": [[]]}, "pairs is a list of arms to compare"),
        ({"pairs": [["barrier", "qualty"]]}, "quality"),
        ({"pairs": None}, "pairs is a list"),
        ({"skip": [{"scene": "rooms"}]}, "a skip names places"),
        ({"skip": [{"scen": "rooms", "reason": "x"}]}, "nearest one is 'scene'"),
        ({"skip": [{"scene": "room", "reason": "x"}]}, "nearest value is rooms"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        expand_study(read_study("tiny", {**TINY, **changes}))


def test_a_wrong_word_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "smoke", "sede=1", "--dry-run"]) == 2
    assert "'seed'" in capsys.readouterr().err
    assert main(["run", "smok"]) == 2
    assert "nearest one is smoke" in capsys.readouterr().err
    assert main(["run", "absent.yaml"]) == 2
    assert "absent.yaml cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["set: {seed: 2024-13-45}", "set: {seed: ["])
def test_values_that_yaml_stumbles_over_are_named(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A date that is none raises ValueError there."""
    (tmp_path / "tiny.yaml").write_text(text)
    assert main(["run", str(tmp_path / "tiny.yaml"), "--dry-run", f"out={tmp_path}"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "tiny" in line or "2024" in line
    assert main(["run", "smoke", "seed={", "--dry-run", f"out={tmp_path}"]) == 2
    assert "seed={ cannot be read as a value" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(path.stem for path in STUDIES.glob("*.yaml")))
def test_committed_studies_expand(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODIN_DATA", str(tmp_path))  # paths are not looked at before a run
    file = load_study(name)
    assert file.about
    assert StudyPlan.of(name, expand_study(file)).pairs


def test_the_same_pair_twice_is_refused() -> None:
    with pytest.raises(InputError, match="the same pair twice"):
        StudyPlan.of("tiny", expand_study(read_study("tiny", dict(TINY, pairs=[["barrier", "quality"]] * 2))))


def test_a_plan_survives_its_file(tmp_path: Path) -> None:
    plan = StudyPlan.of("tiny", expand_study(read_study("tiny", TINY), [f"out={tmp_path}"]))
    again = StudyPlan.load(plan.save())
    assert again.pairs == plan.pairs
    assert again.out == tmp_path.resolve()
    config = again.pairs[1].config(tmp_path)
    assert config == expand_study(read_study("tiny", TINY), [f"out={tmp_path}"])[1].config
    with pytest.raises(InputError, match="has no pair 0000"):
        again.pair("0000")


def test_two_thousand_cells_are_planned_without_torch(tmp_path: Path) -> None:
    """CPU time, because the wall of a shared machine says nothing about us; ≤ 5 s."""
    code = (
        "import sys, time; from harness.cli import main\n"
        f"seeds = ','.join(map(str, range(32))); words = ['seed=' + seeds, 'out={tmp_path}/runs']\n"
        "assert main(['run', 'variance', *words, '--dry-run']) == 0\n"
        "heavy = {'torch', 'numba', 'pandas'} & set(sys.modules); assert not heavy, heavy\n"
        "print(time.process_time())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("variance: 2048 cells in 512 pairs")
    assert sum(line.startswith("pending") for line in lines) == 2048
    assert float(lines[-1]) < 5.0
    assert not list(tmp_path.iterdir())


def test_expansion_is_fast_enough_to_be_repeated() -> None:
    began = time.process_time()
    expand_study(load_study("variance"))
    assert time.process_time() - began < 5.0
