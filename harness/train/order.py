"""What the ranks of a training read beside their spec."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from harness.run.spec import RunSpec


@dataclass(frozen=True, kw_only=True)
class Order:
    """Where to keep what, and when.

    folder: of the training
    every:  steps from checkpoint to checkpoint
    stop:   steps after which to end, at a checkpoint; None: at the end of the plan
    """

    folder: str
    every: int
    stop: int | None = None

    def save(self, spec: RunSpec) -> None:
        """Into the folder of the run."""
        spec.folder.joinpath("order.json").write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls, spec: RunSpec) -> Order:
        """What `save` wrote."""
        return cls(**json.loads(spec.folder.joinpath("order.json").read_text(encoding="utf-8")))
