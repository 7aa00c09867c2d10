"""From a study to its cells: one run of one arm each."""

from __future__ import annotations

from dataclasses import dataclass

from harness.config.schema import Config


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of one arm; `repeat` counts the runs of that arm from 0."""

    arm: str
    repeat: int
    config: Config


def expand(config: Config) -> tuple[Cell, ...]:
    """The study's cells in the order they run: a, b, c, d, then d, c, b, a where it is mirrored.

    Mirroring gives every arm the same mean place in time, so linear drift of the machine cancels in a ratio.
    """
    passes = [config.study.arms]
    if config.study.mirrored:
        passes.append(config.study.arms[::-1])
    return tuple(Cell(arm=arm, repeat=repeat, config=config) for repeat, arms in enumerate(passes) for arm in arms)
