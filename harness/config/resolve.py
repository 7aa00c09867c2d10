"""A config as plain data: what is saved before a run, and what a cell's identity is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from harness.config.convert import build
from harness.config.schema import Config


def _plain(value: Any) -> Any:
    """Sorted dicts, lists, numbers, text: the same config gives the same JSON text."""
    if isinstance(value, dict):
        return {key: _plain(value[key]) for key in sorted(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


# Settings of the engine that are no part of a cell's identity.
NO_NUMBER = ("timeout_s", "padding_reserve", "realtime")
# Settings that came later than published records. Where they are null, or as it was before, nothing has changed, and
# those records keep their ids.
LATER = ("redistribute_every", "redistribute_above", "balance")
AS_BEFORE = (("protocol", "inria"), ("sas", "default"), ("coupling_limit", None), ("memory", "none"))


def resolved(config: Config) -> dict[str, Any]:
    """Every setting but `out`, as JSON-able data with sorted keys.

    `out` is left out because it says where the record lies, which the record itself cannot get wrong; a moved
    results folder stays valid.
    """
    # Through `build` once more, so that perturb=0 given in code is the perturb=0.0 of a word.
    everything = _plain(asdict(build(Config, _plain(asdict(config)))))
    del everything["out"]
    return everything


def identity(config: Config) -> dict[str, Any]:
    """`resolved` without what no number depends on: where the scene's files lie, the watchdog's patience, a
    reserve of padding and a policy of the scheduler (what was used of both is in the record).

    The scene enters a cell id by its manifest, so the same files under another path are the same cell.
    """
    return identity_of(resolved(config))


def identity_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`identity`, from what `resolved` gave; `settings` stays as it is."""
    scene = {key: value for key, value in settings["scene"].items() if key != "path"}
    engine = {key: value for key, value in settings["engine"].items() if key not in NO_NUMBER}
    pipeline = {k: v for k, v in settings["pipeline"].items() if v is not None or k not in LATER}
    study = {k: v for k, v in settings["study"].items() if (k, v) not in AS_BEFORE}
    # Without faults a cell is what it was before there were any; with faults it is another.
    whole = {key: value for key, value in settings.items() if key != "faults" or value}
    return {**whole, "scene": scene, "engine": engine, "pipeline": pipeline, "study": study}
