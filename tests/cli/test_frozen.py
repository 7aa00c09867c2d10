"""What users rely on: commands and flags, keys and options, exported names. Changing one is changing the interface."""

from __future__ import annotations

import importlib

import typer

from harness.cli import application
from harness.config.keys import groups, keys, short_words

COMMANDS = {
    "reproduce": ["study", "words", "--dry-run", "--refresh"],
    "run": ["study", "words", "--dry-run", "--refresh"],
    "status": ["path", "--all"],
    "retry": ["path"],
    "plan": ["words"],
    "predict": ["words"],
    "report": ["path"],
    "timeline": ["cells", "--out", "--first"],
    "arms": [],
    "doctor": ["--quick"],
}
GROUPS = {
    "cluster": ("local", "rtx4090-pcie4", "rtx4090-pcie4+erdma160"),
    "compute": ("host-cpu", "rtx4090"),
    "engine": ("process", "virtual"),
    "link": ("cluster", "exposed-229", "exposed-295", "exposed-323", "fig1-2dgs", "fig1-3dgs", "fig1-dash",
             "fig1-taming", "none"),
    "pipeline": ("2dgs", "3dgs", "dashgs", "grendel", "taminggs"),
    "scale": ("short", "smoke"),
    "scene": ("city", "falsifier", "orbit", "rooms"),
    "study": ("headline",),
}  # fmt: skip
KEYS = """
scene.path scene.images scene.test_every scene.skip_missing
pipeline.name pipeline.source pipeline.optimizer pipeline.densify pipeline.sh_degree pipeline.lambda_dssim
pipeline.initial_subsample pipeline.perturb pipeline.densification_floor_steps pipeline.sh_floor_steps
pipeline.reset_floor_steps pipeline.densify_every pipeline.densify_at pipeline.reset_at pipeline.sh_at
pipeline.budget_mode pipeline.primitive_budget pipeline.score_views pipeline.f_rest_every pipeline.max_primitives
pipeline.lambda_normal pipeline.lambda_dist pipeline.depth_ratio pipeline.lr_scale
pipeline.redistribute_every pipeline.redistribute_above pipeline.balance
engine.name engine.device engine.ranks engine.views_per_unit engine.timeout_s engine.padded engine.padding_reserve
engine.realtime engine.reduce compute.name compute.scale_rows compute.scale_pixels compute.overlap_slowdown
cluster.name link.name link.exposed_share link.alpha_s scale.steps
study.name study.arms study.mirrored study.regions study.protocol study.sas study.coupling_limit study.memory
seed out faults
"""
LONG_ONLY = {"pipeline.name", "engine.name", "compute.name", "cluster.name", "link.name", "study.name"}
NAMES = {
    "harness.cli": ["application", "main"],
    "harness.config": ["Cell", "Cluster", "Compute", "Config", "Engine", "Link", "Pipeline", "Scale", "Scene", "Study",
                       "expand", "identity", "load", "resolved"],
    "harness.doctor": ["Finding", "State", "examine", "print_findings"],
}  # fmt: skip


def test_commands_and_flags() -> None:
    app = application()
    found = {}
    for command in app.registered_commands:
        single = typer.Typer(add_completion=False)
        single.registered_commands.append(command)
        params = typer.main.get_command(single).params
        found[command.name] = [p.name if p.param_type_name == "argument" else p.opts[0] for p in params]
    # Commands of other packages are theirs to freeze.
    assert {name: found.get(name) for name in COMMANDS} == COMMANDS


def test_groups_and_options() -> None:
    assert groups() == GROUPS


def test_keys_and_short_words() -> None:
    assert list(keys()) == KEYS.split()
    assert set(short_words().values()) == set(KEYS.split()) - LONG_ONLY


def test_exported_names() -> None:
    assert {module: importlib.import_module(module).__all__ for module in NAMES} == NAMES
