"""The folder of a training: settings, log, checkpoints, model and result (D§5). All but the log is replaced whole.

settings.json      the configuration, as given, and the versions of the code that trained
log.csv            a line per step, over all invocations
checkpoint.npz     newest state of a replicated pipeline, or step-000060/ with a file for each owner
model.ply          the final model
result.json        quality, primitives and digest of it
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock

from harness.config import Config, resolved
from harness.config.convert import build
from harness.config.resolve import identity
from harness.run.shard_files import newest
from harness.store.files import read_json, sweep, write_text
from harness.store.identity import code_version
from harness.store.record import Positive, Record, Text
from harness.train.judged import Judged
from odin.errors import InputError

_LONGEST_NAME = 60


@dataclass(frozen=True)
class TrainingFolder:
    """Where one training keeps what it has."""

    path: Path

    @classmethod
    def of(cls, config: Config, every: int, name: str, manifest: str) -> TrainingFolder:
        """Below `out`, by scene, pipeline and arm, and a hash of all that a bit depends on but the code: the same
        command finds it again. name, manifest: of the scene."""
        whole = json.dumps({"config": identity(config), "scene": manifest, "every": every})
        words = [name, config.pipeline.name, *config.study.arms]
        short = re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(words)).strip("-")[:_LONGEST_NAME]
        return cls(Path(config.out) / "train" / f"{short}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}")

    @property
    def log(self) -> Path:
        """A line per step."""
        return self.path / "log.csv"

    @property
    def model(self) -> Path:
        """The final model."""
        return self.path / "model.ply"

    @property
    def result(self) -> Path:
        """Quality of the final model; it is there when training has ended."""
        return self.path / "result.json"

    @property
    def settings(self) -> Path:
        """What is trained."""
        return self.path / "settings.json"

    def checkpoints(self, *, sharded: bool) -> Path:
        """What checkpoints are written to: a file, or the folder of folders of shards."""
        return self.path if sharded else self.path / "checkpoint.npz"

    def checkpoint(self) -> Path | None:
        """The newest checkpoint, or None."""
        replicated = self.checkpoints(sharded=False)
        return replicated if replicated.exists() else newest(self.path)

    def lock(self) -> FileLock:
        """Held while it is trained."""
        return FileLock(self.path.with_name(f"{self.path.name}.lock"))

    def sweep(self) -> None:
        """Remove what writers that were killed have left."""
        for folder in (self.path, *self.path.glob("step-*")):
            sweep(folder)

    def begin(self, config: Config, every: int) -> list[str]:
        """Write the settings; the versions of other code that have trained before, oldest first."""
        others = self.other_code() if self.checkpoint() else []
        data: dict[str, Any] = {"config": {**resolved(config), "out": str(Path(config.out).resolve())}, "every": every}
        if not config.scene.procedural:  # `evaluate` may be called in another folder
            data["config"]["scene"]["path"] = str(Path(config.scene.path).expanduser().resolve())
        write_text(self.settings, json.dumps({**data, "code_versions": [*others, code_version()]}, indent=1) + "\n")
        return others

    def other_code(self) -> list[str]:
        """Versions of other code that have trained, oldest first."""
        before = self._document().code_versions if self.settings.exists() else ()
        return [version for version in before if version != code_version()]

    def config(self) -> Config:
        """What is trained. Raises InputError where this is not the folder of a training."""
        return build(Config, self._document().config)

    def finished(self) -> Judged | None:
        """What `result.json` holds; None before the end. Raises InputError."""
        return _read(self.result, Judged) if self.result.exists() else None

    def _document(self) -> _Settings:
        return _read(self.settings, _Settings)


class _Settings(Record):
    """settings.json. config: checked where it is built; code_versions: that have trained, oldest first."""

    config: dict[str, Any]
    every: Positive
    code_versions: tuple[Text, ...]


_Kind = TypeVar("_Kind", bound=Record)


def _read(path: Path, kind: type[_Kind]) -> _Kind:
    try:
        return kind.model_validate(read_json(path))
    except (OSError, ValueError) as error:  # also where it is JSON of something else
        raise InputError(
            f"{path} cannot be read ({' '.join(str(error).split())[:200]}). Name the folder of a training as "
            "`odin-bench train` has printed it, or train again with another out=FOLDER."
        ) from error
