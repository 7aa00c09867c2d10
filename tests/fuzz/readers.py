"""The readers under test: how to make a broken input for each, and how to read it.

A reader gets the folder where its input lies. It returns what a caller would get or raises InputError.
"""

from __future__ import annotations

import io
import json
import os
import random
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from harness.plan.document import NamedPlan, read_plan, to_json
from harness.scenes import SceneSpec, load_scene
from harness.store.index import RecordIndex
from harness.store.states import State
from harness.store.store import load_result
from harness.study.plan import StudyPlan
from odin.errors import InputError
from odin.plan import Plan
from pipelines import checkpoint as checkpoints
from tests.fuzz.mutate import changed, deep, mutated, mutated_json
from tests.scenes.toy_scene import ToyModel, binary_files, text_files, toy_model, write_images
from tests.store import samples

Files = Mapping[str, bytes]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A reader of files.

    prepare: writes what all inputs share
    make:    the files of one input
    read:    what is tried; checks what it got
    inputs:  how many a run in CI tries
    """

    prepare: Callable[[Path], None]
    make: Callable[[random.Random], Files]
    read: Callable[[Path], object]
    inputs: int = 10_000


# COLMAP models -----------------------------------------------------------------------------------------------------


@cache
def _model() -> ToyModel:
    """Two views and ten points of the toy scene."""
    model = toy_model(views=2, points=10)
    images = tuple(replace(image, observed=image.observed[:8]) for image in model.images)
    return replace(model, images=images)


def _images(folder: Path) -> None:
    write_images(folder / "images", _model())
    (folder / "sparse/0").mkdir(parents=True)


@cache
def _binary() -> Files:
    return {f"sparse/0/{name}": data for name, data in binary_files(_model()).items()}


@cache
def _text() -> Files:
    return {f"sparse/0/{name}": text.encode() for name, text in text_files(_model()).items()}


def _one_of(files: Files, rng: random.Random) -> Files:
    name = rng.choice(sorted(files))
    return {**files, name: mutated(rng, files[name])}


def _read_scene(folder: Path) -> object:
    capture = load_scene(SceneSpec(path=str(folder), test_every=0))
    assert 1 <= len(capture.cameras) == len(capture.images) == capture.tracks.view_count
    assert np.isfinite(capture.points).all() and len(capture.points) == len(capture.colours) > 0
    for camera, pixels in zip(capture.cameras, capture.images, strict=True):
        assert pixels.shape == (camera.height, camera.width, 3) and pixels.dtype == np.uint8
        assert np.isfinite([camera.fx, camera.fy, camera.cx, camera.cy]).all() and min(camera.fx, camera.fy) > 0
        assert np.isfinite(camera.rotation).all() and np.isfinite(camera.translation).all()
    return capture


# Pictures ----------------------------------------------------------------------------------------------------------


@cache
def _pictures() -> Mapping[str, bytes]:
    from PIL import ExifTags, Image

    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 4), np.uint8)
    found = {}
    for name, image in {
        "a.png": Image.fromarray(pixels),
        "b.png": Image.fromarray(pixels[:, :, 0].astype(np.uint16) * 257),
        "c.png": Image.fromarray(pixels[:, :, :3]).quantize(8),
        "d.jpg": Image.fromarray(pixels[:, :, :3]),
        "e.tiff": Image.fromarray(pixels[:, :, :3]),
        "f.jpg": Image.fromarray(pixels[:, :, :3]),
    }.items():
        whole, exif = io.BytesIO(), Image.Exif()
        if name == "f.jpg":
            exif[ExifTags.Base.Orientation], exif[ExifTags.Base.Software] = 3, "a camera"
        kind = {"png": "PNG", "jpg": "JPEG", "tiff": "TIFF"}[name.split(".")[1]]
        image.save(whole, kind, **({"exif": exif} if len(exif) else {}))
        found[name] = whole.getvalue()
    return found


def _picture(rng: random.Random) -> Files:
    pictures = _pictures()
    return {"picture": mutated(rng, pictures[rng.choice(sorted(pictures))])}


def _read_picture(folder: Path) -> object:
    from harness.scenes.colmap.images import read_picture

    picture = read_picture(folder / "picture", (8, 6))
    assert picture.pixels.dtype == np.uint8 and picture.pixels.ndim == 3 and picture.pixels.shape[2] == 3
    return picture


# Plans -------------------------------------------------------------------------------------------------------------


@cache
def _plan() -> str:
    rng = np.random.default_rng(0)
    units = np.stack([rng.permutation(6)[:4] for _ in range(5)]).reshape(5, 2, 2).astype(np.int32)
    plan = Plan(
        units=units,
        region=np.arange(5, dtype=np.int32) % 2,
        mixed=np.zeros(5, np.bool_),
        blocking=np.array([0, 1, 18, 0], np.int32),
        train_count=6,
        provenance={"order": "plan", "seed": 0, "seconds": 0.25},
    )
    return to_json(NamedPlan(plan=plan, scene="toy", manifest="0" * 64, views=tuple(f"{k}.png" for k in range(6))))


def _read_plan(folder: Path) -> object:
    named = read_plan(folder / "plan.json")
    assert named.plan.units.shape[1:] == (named.plan.ranks, named.plan.views_per_unit)
    assert to_json(named)
    return named


@cache
def _study() -> str:
    from harness.study.file import read_study
    from harness.study.matrix import expand_study

    data = {"set": {"steps": 4}, "axes": {"scene": ["rooms"], "seed": [0]}, "pairs": [["barrier", "predicted"]]}
    plan = StudyPlan.of("tiny", expand_study(read_study("tiny", data), ["out=runs"]))
    return json.dumps({"study": plan.name, "pairs": [vars(pair) for pair in plan.pairs]}, default=dict)


def _read_study(folder: Path) -> object:
    plan = StudyPlan.load(folder / "studies/tiny/plan.json")
    assert all(plan.note(pair).parent == plan.folder / "failed" for pair in plan.pairs)
    assert plan.folder.parent == plan.out / "studies"
    return [(pair.text(), pair.scene, pair.ids("manifest", "version")) for pair in plan.pairs]


# Study files -------------------------------------------------------------------------------------------------------

_STUDY_FILE = b"""about: A study.
set: {scale: smoke, link: none, padded: false, steps: 4}
axes:
  scene: [rooms, orbit]
  seed: [0, 1]
  size: [{ranks: 2, views_per_unit: 1}, {ranks: 4}]
pairs: [[barrier, quality], [barrier, predicted]]
skip:
  - {scene: orbit, seed: 1, reason: not needed}
"""


def _read_study_file(folder: Path) -> object:
    from harness.study.file import load_study

    study = load_study(str(folder / "tiny.yaml"))
    assert study.pairs and all(study.axes.values())
    return study


# Trainings ---------------------------------------------------------------------------------------------------------


@cache
def _settings() -> str:
    from harness.config import load, resolved

    config = load(["arms=quality", "steps=4"])
    return json.dumps({"config": {**resolved(config), "out": "runs"}, "every": 2, "code_versions": ["ab"]})


@cache
def _trained() -> str:
    quality = samples.quality(20.0).model_dump(mode="json")
    return json.dumps({"step": 4, "primitives": 10, "quality": quality, "state": "ab" * 32})


def _make_training(rng: random.Random) -> Files:
    files = {"settings.json": _settings().encode(), "result.json": _trained().encode()}
    name = rng.choice(sorted(files))
    return {**files, name: mutated_json(rng, files[name].decode())}


def _read_training(folder: Path) -> object:
    from harness.train.folder import TrainingFolder

    training = TrainingFolder(folder)
    config, found = training.config(), training.finished()
    assert found is not None and training.checkpoint() is None and found.line(config)
    return training


# Results -----------------------------------------------------------------------------------------------------------


@cache
def _result() -> str:
    return json.dumps(samples.result().model_dump(mode="json"))


def _read_result(folder: Path) -> object:
    result = load_result(folder / "result.json")
    assert json.dumps(result.model_dump(mode="json"), allow_nan=False)
    return result


_MOMENT = 1_700_000_000  # s, when the record below the index was written


def _record(folder: Path) -> None:
    path = folder / "cells" / samples.result().cell_id / "result.json"
    path.parent.mkdir(parents=True)
    path.write_text(_result(), encoding="utf-8")
    os.utime(path, (_MOMENT, _MOMENT))


@cache
def _index() -> str:
    """Of that record, as a program of this version leaves it."""
    with TemporaryDirectory() as name:
        _record(Path(name))
        RecordIndex(Path(name))
        return (Path(name) / "index.json").read_text(encoding="utf-8")


@cache
def _entries() -> object:
    """What is known of that record without an index."""
    with TemporaryDirectory() as name:
        _record(Path(name))
        return RecordIndex(Path(name)).entries


def _read_index(folder: Path) -> object:
    """The record is there, so something is known of it whatever the index says; an index that is not believed counts
    as refused."""
    made = samples.result()
    index = RecordIndex(folder)
    known = index.state(made.cell_id), index.state(f"{made.cell_id.rsplit('-', 1)[0]}-{'0' * 16}")
    assert list(index.entries) == [made.cell_id] and all(isinstance(one.state, State) for one in known)
    if index.entries == _entries():
        raise InputError("it was read again")
    return index


# Checkpoints -------------------------------------------------------------------------------------------------------


@cache
def _checkpoint() -> Mapping[str, bytes]:
    """Members of a whole checkpoint."""
    header = checkpoints.Header(
        pipeline="3dgs", arm="quality", next_step=4, t=3, structural_version=1, sh_degree=2, resets=0, fallen=False,
        seed=0, plan="abc", manifest="def", state={"scale": 0.5},
    )  # fmt: skip
    rows, floats = 6, np.random.default_rng(0).random((3, 6, 7), np.float32)
    made = checkpoints.Checkpoint(
        header=header,
        parameters=floats[0],
        m=floats[1],
        v=floats[2],
        statistics=np.arange(2 * rows).reshape(rows, 2),
        evidence=np.zeros(rows, np.float32),
        costs=np.arange(4),
        held=np.zeros((rows, 3), np.float32),
        ids=np.arange(rows, dtype=np.int32),
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "whole.npz"
        checkpoints.save(path, made)
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}


@lru_cache(64)
def _array(data: bytes) -> np.ndarray:
    """A member as an array; the members that are not changed are read once."""
    return np.load(io.BytesIO(data))


def _zipped(members: Mapping[str, bytes], compression: int) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return whole.getvalue()


@cache
def _zipped_whole() -> bytes:
    return _zipped(_checkpoint(), zipfile.ZIP_STORED)


def _make_checkpoint(rng: random.Random) -> Files:
    """Half of the inputs are broken inside of members whose checksums are right, some with a digest that is right."""
    if rng.random() < 0.4:
        return {"c.npz": mutated(rng, _zipped_whole())}
    members = dict(_checkpoint())
    name = rng.choice(sorted(members))
    members[name] = _json_member(rng, members[name]) if name == "header.npy" else mutated(rng, members[name])
    if rng.random() < 0.1:
        other = rng.choice(sorted(members))
        members[name], members[other] = members[other], members[name]
    if rng.random() < 0.5:
        members = _with_digest(members)
    return {"c.npz": _zipped(members, rng.choice((zipfile.ZIP_STORED,) * 9 + (zipfile.ZIP_DEFLATED,)))}


def _npy(array: np.ndarray) -> bytes:
    whole = io.BytesIO()
    np.save(whole, array)
    return whole.getvalue()


def _json_member(rng: random.Random, data: bytes) -> bytes:
    if rng.random() < 0.05:
        return _npy(np.frombuffer(deep(rng), np.uint8))
    value: Any = json.loads(np.load(io.BytesIO(data)).tobytes())
    for _ in range(rng.choice((1, 2))):
        value = changed(rng, value)
    return _npy(np.frombuffer(json.dumps(value).encode(), np.uint8))


def _with_digest(members: dict[str, bytes]) -> dict[str, bytes]:
    """The members with the digest that belongs to them, where they are arrays at all."""
    try:
        arrays = {name.removesuffix(".npy"): _array(data) for name, data in members.items()}
        document = json.loads(arrays.pop("header").tobytes())
        document["digest"] = checkpoints._digest(arrays)
    except Exception:
        return members
    return {**members, "header.npy": _npy(np.frombuffer(json.dumps(document).encode(), np.uint8))}


def _read_checkpoint(folder: Path) -> object:
    found = checkpoints.load(folder / "c.npz")
    assert np.isfinite(found.parameters).all() and found.m.shape == found.v.shape == found.parameters.shape
    return found


def _nothing(folder: Path) -> None:
    return None


def _study_folder(folder: Path) -> None:
    (folder / "studies/tiny").mkdir(parents=True)


READERS = {
    "colmap-binary": Reader(prepare=_images, make=lambda rng: _one_of(_binary(), rng), read=_read_scene),
    "colmap-text": Reader(prepare=_images, make=lambda rng: _one_of(_text(), rng), read=_read_scene),
    "picture": Reader(prepare=_nothing, make=_picture, read=_read_picture, inputs=3_000),
    "plan": Reader(prepare=_nothing, make=lambda rng: {"plan.json": mutated_json(rng, _plan())}, read=_read_plan),
    "study-plan": Reader(
        prepare=_study_folder,
        make=lambda rng: {"studies/tiny/plan.json": mutated_json(rng, _study())},
        read=_read_study,
        inputs=3_000,
    ),
    "result": Reader(
        prepare=_nothing, make=lambda rng: {"result.json": mutated_json(rng, _result())}, read=_read_result
    ),
    "index": Reader(
        prepare=_record,
        make=lambda rng: {"index.json": mutated_json(rng, _index())},
        read=_read_index,
        inputs=3_000,
    ),
    "study-file": Reader(
        prepare=_nothing,
        make=lambda rng: {"tiny.yaml": mutated(rng, _STUDY_FILE)},
        read=_read_study_file,
        inputs=3_000,
    ),
    "training": Reader(prepare=_nothing, make=_make_training, read=_read_training, inputs=3_000),
    "checkpoint": Reader(prepare=_nothing, make=_make_checkpoint, read=_read_checkpoint),
}

# Readers that share a process, for what they import.
GROUPS = {
    "scenes": ("colmap-binary", "colmap-text", "picture"),
    "records": ("plan", "study-plan", "study-file", "result", "index", "training", "checkpoint"),
}
