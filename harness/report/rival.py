"""Which baseline the headline's ratio is against: `barrier`, or `ddp` where that is faster (D§6 Arms)."""

from __future__ import annotations

from collections.abc import Sequence

from harness.store.record import Reading, Record
from odin.arms import Waits
from odin.arms import arm as arm_named


class Rival(Record):
    """The other synchronized baseline of a sequence.

    speedup: time of `baseline` ÷ its time; absent where the pair failed a gate
    floor:   noise floor of the sequence
    """

    arm: str
    baseline: str
    speedup: Reading
    floor: Reading

    @property
    def leads(self) -> bool:
        """Faster than the baseline by more than the noise floor; without a floor nothing is."""
        speedup, floor = self.speedup.value, self.floor.value
        return speedup is not None and floor is not None and speedup > 1.0 + floor

    @property
    def says(self) -> str:
        """The verdict, one sentence."""
        stays = f"{self.baseline} stays the baseline"
        if self.speedup.value is None:
            return f"{self.arm} has no ratio to {self.baseline} ({self.speedup.reason}): {stays}."
        ratio = f"{self.arm} {self.speedup.text('.3f', unit='×')} of {self.baseline}"
        floor = self.floor.text(".2f", 100, " %")
        if not self.leads:
            return f"{ratio}: {stays} (noise floor {floor})."
        return (
            f"{ratio}, faster by more than the noise floor of {floor}: the headline ratio is that of the column "
            f"÷ {self.arm}; speedup, exposed and hidden shares are against {self.baseline}."
        )


def rival_in(arms: Sequence[str]) -> str | None:
    """The arm inside torch's DistributedDataParallel, if there is one."""
    return next((arm for arm in arms if arm_named(arm).waits is Waits.DDP), None)
