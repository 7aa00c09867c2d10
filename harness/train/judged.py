"""What is known of a trained model: result.json and evaluation.json."""

from __future__ import annotations

from harness.config import Config
from harness.measure.quality import Quality
from harness.store.record import Count, Record, Text


class Judged(Record):
    """A model after `step` steps.

    state:  digest of parameters, moments and counter
    shards: files it was put together from; 0 where it was whole
    """

    step: Count
    primitives: Count
    quality: Quality
    state: Text
    shards: Count = 0

    def line(self, config: Config) -> str:
        """One line for a reader."""
        psnr, ssim = self.quality.psnr.text(".4f", unit=" dB"), self.quality.ssim.text(".6f")
        shards = f" in {self.shards} shards" if self.shards else ""
        return (
            f"{config.pipeline.name} {config.study.arms[0]}, step {self.step} of {config.scale.steps}: "
            f"test PSNR {psnr}, SSIM {ssim}, {self.primitives} primitives{shards}, state {self.state[:16]}"
        )

    def document(self) -> str:
        """As it is written."""
        return self.model_dump_json(indent=1) + "\n"
