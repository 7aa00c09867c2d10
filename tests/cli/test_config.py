"""`harness.config`: types, ranges, defaults, cells, and the canonical form."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from harness.config import (
    Cell,
    Config,
    Engine,
    Link,
    Pipeline,
    Scale,
    Scene,
    Study,
    expand,
    identity,
    load,
    resolved,
)
from harness.config.convert import build
from harness.config.keys import CONF, groups, keys
from harness.config.schema import CLUSTERS, FITTED_LINKS, PROCEDURAL_SCENES, REDUCTIONS
from odin.errors import InputError


def test_the_defaults_of_files_and_classes_agree() -> None:
    assert load() == Config()


VIRTUAL = ["engine=virtual", "compute=rtx4090"]
CLUSTERED = {name: [*VIRTUAL, "link=cluster"] for name in CLUSTERS}
# What an option does not go without.
COMPANIONS: dict[str, dict[str, list[str]]] = {
    "compute": {"rtx4090": ["engine=virtual"]},
    "cluster": CLUSTERED,
    "link": {"cluster": [*VIRTUAL, f"cluster={CLUSTERS[0]}"], **dict.fromkeys(FITTED_LINKS, VIRTUAL)},
}


def test_every_option_composes_and_names_itself() -> None:
    for group, options in groups().items():
        for option in options:
            config = load([f"{group}={option}", *COMPANIONS.get(group, {}).get(option, [])])
            assert getattr(getattr(config, group), "name", option) == option


def test_every_value_in_the_files_is_a_key() -> None:
    for file in sorted(CONF.glob("*/*.yaml")):
        values = OmegaConf.load(file)
        # `defaults` is Hydra's: an option may start from another of its group.
        named = set(map(str, values)) - {"defaults"}
        assert {f"{file.parent.name}.{name}" for name in named} <= set(keys()), file


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("scale.steps", "abc", "a whole number"), ("scale.steps", 1.5, "a whole number"),
        ("scale.steps", True, "a whole number"), ("scale.steps", None, "a whole number"),
        ("pipeline.perturb", "x", "a number"), ("pipeline.perturb", False, "a number"),
        ("engine.timeout_s", 10**400, "a number"), ("engine.padded", 1, "true or false"),
        ("engine.padded", "yes", "true or false"), ("pipeline.densify_at", ["x"], r"a list like \[20,40\], or null"),
        ("pipeline.densify_at", [1, True], "a list like"), ("pipeline.densify_at", [[1]], "a list like"),
        ("pipeline.densify_at", [{"a": 1}], "a list like"), ("pipeline.densify_at", 20, "a list like"),
        ("pipeline.densify_every", [1], "a whole number, or null"), ("study.arms", [1], r"a list like \[a,b\]"),
        ("study.arms", None, "a list like"), ("scene.path", 3, "text"),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_refused(key: str, value: object, expected: str) -> None:
    data: dict[str, Any] = resolved(Config()) | {"out": "runs"}
    group, _, name = key.partition(".")
    data[group][name] = value
    with pytest.raises(InputError, match=f"^{key}=.*is refused: expected {expected}"):
        build(Config, data)


@pytest.mark.parametrize(
    "word",
    ["steps=1,2", "steps=(", "steps=][", "steps='5", "steps=${no.such}", "steps=${scale.steps}", "steps=range(1,3)",
     "steps=" + "9" * 5000],
)  # fmt: skip
def test_a_value_that_hydra_cannot_read_is_one_paragraph(word: str) -> None:
    with pytest.raises(InputError) as caught:
        load([word])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700


CUDA = Engine(device="cuda", padded=False)
PLAIN = Link(name="none", exposed_share=0.0)
WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: Scale(steps=0), "scale.steps=0 .* at least 1"),
    (lambda: Scale(steps=-5), "scale.steps=-5"),
    (lambda: Scale(steps=10**9), "at most 10000000"),
    (lambda: Engine(ranks=0), "engine.ranks=0"),
    (lambda: Engine(ranks=-1), "engine.ranks=-1"),
    (lambda: Engine(ranks=17), "engine.ranks=17 .*at most 16"),
    (lambda: Engine(reduce="ring"), "engine.reduce=ring .*native, ordered"),
    (lambda: Engine(views_per_unit=0), "engine.views_per_unit=0"),
    (lambda: Engine(timeout_s=0.0), "engine.timeout_s=0"),
    (lambda: Engine(timeout_s=float("nan")), "engine.timeout_s=NaN"),
    (lambda: Engine(name="slurm"), "engine.name=slurm .*process"),
    (lambda: Engine(device="tpu"), "engine.device=tpu .*cpu, cuda"),
    (lambda: Engine(device="cuda"), "with engine.device=cuda.* write device=cuda padded=false link=none"),
    (lambda: Config(engine=CUDA), "link=exposed-295 is refused: expected link=none with engine.device=cuda"),
    (lambda: Config(engine=CUDA, link=PLAIN), r"study.arms=\[predicted\] .* use predicted:audit=0:dispatch=static"),
    (lambda: Scene(test_every=-1), "scene.test_every=-1"),
    (lambda: Scene(test_every=1), "scene.test_every=1 .*no view to train on"),
    (lambda: Scene(path=""), "scene= .*folder"),
    (lambda: Scene(images=""), "scene.images="),
    (lambda: Scene(images="images_4"), "scene.images=images_4 .*all that this scene has"),
    (lambda: Scene(path="rooms?views=9", images="images_4"), "scene.images=images_4"),
    (lambda: Pipeline(name="4dgs"), "pipeline.name=4dgs .*3dgs"),
    (lambda: Pipeline(source="forks"), "pipeline.source=forks .*reference, fork"),
    (lambda: Config(pipeline=Pipeline(source="fork")), "padded.* expected false and none with source=fork device=cpu"),
    (lambda: Pipeline(score_views=3), "pipeline.score_views=3 .*null with pipeline=3dgs.*taminggs"),
    (lambda: Pipeline(name="dashgs", f_rest_every=8), "pipeline.f_rest_every=8 .*pipeline=dashgs"),
    (lambda: Pipeline(name="taminggs"), "pipeline.budget_mode=null .*pipeline=taminggs"),
    (lambda: Pipeline(name="dashgs", max_primitives=0), "pipeline.max_primitives=0"),
    (lambda: replace(load(["pipeline=taminggs"]).pipeline, primitive_budget=0.0), "primitive_budget=0.0"),
    (lambda: replace(load(["pipeline=taminggs"]).pipeline, budget_mode="half"), "budget_mode=half"),
    (lambda: replace(load(["pipeline=taminggs"]).pipeline, f_rest_every=0), "f_rest_every=0"),
    (lambda: Pipeline(sh_degree=4), "pipeline.sh_degree=4"),
    (lambda: Pipeline(lambda_dssim=1.1), "pipeline.lambda_dssim=1.1"),
    (lambda: Pipeline(lambda_dssim=float("nan")), "pipeline.lambda_dssim=NaN"),
    (lambda: Pipeline(initial_subsample=0.0), "pipeline.initial_subsample=0.0"),
    (lambda: Pipeline(perturb=-1.0), "pipeline.perturb=-1.0"),
    (lambda: Pipeline(sh_floor_steps=0), "pipeline.sh_floor_steps=0"),
    (lambda: Pipeline(densify_every=0), "pipeline.densify_every=0"),
    (lambda: Pipeline(densify_at=(40, 20)), r"pipeline.densify_at=\[40,20\] .*ascending"),
    (lambda: Pipeline(reset_at=(0,)), r"pipeline.reset_at=\[0\]"),
    (lambda: Pipeline(sh_at=(5, 5)), r"pipeline.sh_at=\[5,5\]"),
    (lambda: Pipeline(densify=False, densify_at=(20,)), "pipeline.densify=false"),
    (lambda: Pipeline(densify=False, densify_every=5), "pipeline.densify=false"),
    (lambda: Pipeline(densify_every=5, densify_at=(20,)), "not both"),
    (lambda: Link(exposed_share=1.0), "link.exposed_share=1.0"),
    (lambda: Link(exposed_share=float("nan")), "link.exposed_share=NaN"),
    (lambda: Link(exposed_share=0.4), "expected exposed-400"),
    (lambda: Link(name="none"), "expected exposed-295"),
    (lambda: Link(alpha_s=-1.0), "link.alpha_s=-1.0"),
    (lambda: Link(name="none", exposed_share=0.0, alpha_s=1e-3), "link.alpha_s=0.001"),
    (lambda: Study(arms=()), r"study.arms=\[\]"),
    (lambda: Study(arms=("barrier", "barrier")), "none of them twice"),
    (lambda: Study(arms=("barrier", "qualty")), "quality"),
    (lambda: Study(name="headlines"), "study.name=headlines .*study.name=headline"),
    (lambda: Study(regions=0), "study.regions=0"),
    (lambda: Config(seed=-1), "seed=-1"),
    (lambda: Config(seed=2**32), "seed=4294967296"),
    (lambda: Config(out=""), "out="),
]  # fmt: skip


@pytest.mark.parametrize(("make", "says"), WRONG)
def test_a_value_out_of_range_is_refused_at_construction(make: Callable[[], object], says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_limits_are_accepted() -> None:
    Scene(path="/x", test_every=0)
    Pipeline(densify=False, densify_at=(), initial_subsample=1.0, sh_degree=0, lambda_dssim=0.0)
    Link(name="none", exposed_share=0.0)
    Link(name="exposed-400", exposed_share=0.4)
    Config(seed=2**32 - 1, engine=Engine(ranks=1, views_per_unit=1))
    Engine(ranks=16, reduce="native")
    Engine(ranks=2, reduce="ordered")


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Config().seed = 1  # type: ignore[misc]


def test_budget_and_batch() -> None:
    config = Config(scale=Scale(steps=10), engine=Engine(ranks=2, views_per_unit=3))
    assert (config.engine.global_batch, config.image_budget) == (6, 60)


def test_build_refuses_unknown_and_missing_keys() -> None:
    data: dict[str, Any] = json.loads(json.dumps(resolved(Config()))) | {"out": "runs"}
    assert build(Config, data) == Config()
    with pytest.raises(InputError, match=r"no key 'scene\.pth'. The nearest valid one is 'scene\.path'"):
        build(Config, data | {"scene": {"pth": "x"}})
    with pytest.raises(InputError, match=r"no value for scene\.path, scene\.images"):
        build(Config, data | {"scene": {}})
    with pytest.raises(InputError, match="scene=5 is refused"):
        build(Config, data | {"scene": 5})


def test_resolved_is_canonical_json() -> None:
    text = json.dumps(resolved(load(["densify_at=20,40"])))
    assert text == json.dumps(json.loads(text), sort_keys=True)
    assert json.loads(text)["pipeline"]["densify_at"] == [20, 40]


def test_the_same_setting_has_one_form() -> None:
    in_code = Config(pipeline=Pipeline(perturb=0), engine=Engine(timeout_s=120))
    assert json.dumps(resolved(in_code)) == json.dumps(resolved(Config()))
    assert json.dumps(resolved(load(["perturb=-0.0"]))) == json.dumps(resolved(Config()))


def test_resolved_depends_on_every_key_but_out() -> None:
    base = resolved(Config())
    assert "out" not in base
    assert resolved(replace(Config(), out="x")) == base
    flat = {f"{group}.{name}" for group, inner in base.items() if isinstance(inner, dict) for name in inner}
    assert flat | {"seed", "out", "faults"} == set(keys())


def test_identity_forgets_where_things_lie_and_nothing_else() -> None:
    here = Config(scene=Scene(path="/a/bonsai"))
    there = Config(scene=Scene(path="../bonsai"), out="x", engine=Engine(timeout_s=9.0))
    assert identity(here) == identity(there)
    assert identity(here) != identity(replace(here, seed=1))
    assert resolved(here) != resolved(there)


def test_cells_run_in_mirrored_order() -> None:
    config = Config()
    a, b, c, d = config.study.arms
    cells = expand(config)
    assert [cell.arm for cell in cells] == [a, b, c, d, d, c, b, a]
    assert [cell.repeat for cell in cells] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert len({(cell.arm, cell.repeat) for cell in cells}) == 8
    assert cells[0] == Cell(arm="barrier", repeat=0, config=config)


def test_cells_without_mirroring_run_once() -> None:
    config = Config(study=Study(arms=("barrier", "quality"), mirrored=False))
    assert [(cell.arm, cell.repeat) for cell in expand(config)] == [("barrier", 0), ("quality", 0)]


def test_composing_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hydra.core.global_hydra import GlobalHydra

    monkeypatch.chdir(tmp_path)
    load(["steps=3"])
    assert not GlobalHydra.instance().is_initialized()
    assert list(tmp_path.iterdir()) == []


def test_reductions_are_those_of_the_transport() -> None:
    from odin.comm.transport import Reduction

    assert [reduction.value for reduction in Reduction] == list(REDUCTIONS)


def test_procedural_names_are_those_of_the_loader() -> None:
    from harness.scenes.load import PROCEDURAL

    assert PROCEDURAL_SCENES == PROCEDURAL
    assert set(PROCEDURAL) == set(groups()["scene"])
