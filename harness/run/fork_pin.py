"""What a record says of the fork that it trained."""

from __future__ import annotations

from harness.config import Config
from harness.store.identity import NONE
from pipelines.adapters.pins import pins, require_checkout

STAND_INS = "+cpu-stand-ins"
"""Behind a commit where the fork's extensions were ours: its quality and times are not those of its own kernels."""


def fork_pin(config: Config) -> str:
    """Commit of the checkout, "none" for a reference recipe. Imports no torch; raises InputError where a fork is
    absent."""
    return pin_of(config.pipeline.name, config.pipeline.source, config.engine.device)


def pin_of(pipeline: str, source: str, device: str) -> str:
    """The same from three settings, for plans of thousands of cells."""
    if source != "fork":
        return NONE
    label = require_checkout(pins()[pipeline]).label
    return label if device == "cuda" else label + STAND_INS
