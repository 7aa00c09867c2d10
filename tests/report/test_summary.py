"""The headline's numbers against values worked out from the samples by hand."""

from __future__ import annotations

import pytest

from harness.report.summary import BASELINE, Headline, Numbers, headline
from harness.report.summary import SEQUENCE as SHIPPED
from harness.report.table import plain_text
from harness.store.schema import Jitter, Result
from odin.errors import InputError
from tests.store.samples import ARMS, SEQUENCE, cell, measurement, provenance, result, sequence


def numbers(summary: Headline, arm: str) -> Numbers:
    """Of a row that passed."""
    found = next(row.numbers for row in summary.rows if row.arm == arm)
    assert found is not None
    return found


def test_the_sequence_is_mirrored() -> None:
    assert SHIPPED == SEQUENCE == SEQUENCE[::-1]


def test_the_numbers_of_an_arm() -> None:
    summary = headline(sequence())
    assert [row.arm for row in summary.rows] == list(ARMS)
    quality = numbers(summary, "quality")
    # barrier 300 ms, quality 240 ms per step; second runs × 1.004, so means × 1.002.
    assert quality.speedup == pytest.approx(300 / 240)
    assert quality.repeats == pytest.approx((1.25 * 1.002, 1.25 * 1.002 / 1.004))
    assert quality.how == "mean of the mirrored pair"
    assert quality.seconds == pytest.approx(0.240 * 1.002)
    assert quality.images_per_second == pytest.approx(4 / (0.240 * 1.002))
    assert quality.noise.value == pytest.approx(0.004)
    assert quality.against.exposed.value == pytest.approx(21 / 300)
    assert quality.against.hidden.value == pytest.approx(1 - 39 / 100)
    assert quality.against.hidden_transfer.value == pytest.approx(1 - 21 / 85)
    assert quality.against.hidden_skew.value == pytest.approx(0.5)
    assert quality.delta.value == pytest.approx(0.1)
    assert summary.limit.value == pytest.approx(1.5)
    assert summary.noise.overall.value == pytest.approx(0.004)
    assert numbers(summary, "barrier").speedup == 1.0


def test_ratios_under_jitter_are_draw_by_draw() -> None:
    """Both cells of a draw vary alike, so the ratio is taken before the mean; cells without re-timings have none."""
    times = {"barrier": (0.3, 0.33), "quality": (0.24, 0.22), "barrier-planned": (0.3,)}

    def with_times(arm: str, sigma: float = 0.05) -> Result:
        jitter = Jitter(sigma=sigma, step_seconds=times[arm]) if arm in times else None
        return Result.done(cell(arm, 0, sequence=ARMS), measurement(arm, jitter=jitter), provenance())

    summary = headline([with_times(arm) for arm in ARMS], ARMS)
    assert numbers(summary, "quality").jittered == pytest.approx((1.25, 1.5))
    assert numbers(summary, "predicted").jittered == ()
    text = plain_text(summary)
    assert "Speedup where every phase varies" in text and "varying by 5 % (lognormal" in summary.caption
    line = next(line for line in text[text.index("every phase varies") :].splitlines() if line.startswith("quality "))
    assert line.split()[-3:] == ["1.375×", "1.250×", "1.500×"]
    other = headline([with_times(arm, 0.1 if arm == "quality" else 0.05) for arm in ARMS], ARMS)
    assert numbers(other, "quality").jittered == ()


def test_exactness_is_equality_with_the_planned_barrier() -> None:
    summary = headline(sequence())
    assert [numbers(summary, arm).exact for arm in ARMS] == ["baseline", "reference", "yes", "no"]
    unequal = [result(r.cell.arm, r.cell.repeat, final_digest=f"{k:064x}") if r.cell.arm == "barrier-planned" else r
               for k, r in enumerate(sequence())]  # fmt: skip
    assert numbers(headline(unequal), "predicted").exact.startswith("n/a: barrier-planned is missing or differs")


def test_an_arm_in_random_order_is_compared_with_barrier() -> None:
    """`quality` in random order must end in barrier's bits, and fails its gate where it does not."""
    name = "quality:order=random"

    def with_state(digest: str) -> Headline:
        other = measurement("quality", final_digest=digest)
        arms = tuple(name if arm == "quality" else arm for arm in SEQUENCE)
        moved = [Result.done(cell(name, k, sequence=arms), other, provenance()) for k in (0, 1)]
        rest = [r for r in sequence() if r.cell.arm != "quality"]
        return headline([*rest, *moved], arms)

    (digest,) = {r.measurement.final_digest for r in sequence() if r.cell.arm == "barrier"}
    assert numbers(with_state(digest), name).exact == "yes"
    (row,) = [row for row in with_state("de" * 32).rows if row.arm == name]
    assert row.numbers is None and "its final state differs from barrier's" in row.failure


def test_a_failed_pair_has_no_numbers_and_the_others_have() -> None:
    cells = [r for r in sequence() if (r.cell.arm, r.cell.repeat) != ("predicted", 0)]
    summary = headline([*cells, Result.failed(cell("predicted", 0), "rank 1 was killed", provenance())])
    failed = summary.rows[-1]
    assert (failed.numbers, failed.label) == (None, "padded")
    assert failed.failure == "complete: predicted run 0 failed: rank 1 was killed"
    assert all(row.numbers for row in summary.rows[:-1])
    assert "predicted" not in summary.noise.by_arm


def test_a_failed_baseline_fails_every_pair() -> None:
    cells = [r for r in sequence() if (r.cell.arm, r.cell.repeat) != ("barrier", 1)]
    summary = headline(cells)
    assert not any(row.numbers for row in summary.rows)
    assert summary.limit.reason == "n/a: barrier failed"
    assert BASELINE not in summary.noise.by_arm


def test_what_the_schedule_brings_does_not_depend_on_the_order_of_views() -> None:
    """A planned order that costs quality fails the pairs against barrier, not those within the order."""
    cells = [result(r.cell.arm, r.cell.repeat, 1 + 0.004 * r.cell.repeat) for r in sequence()]
    worse = [_with_psnr(r, -1.2) if r.cell.arm != BASELINE else r for r in cells]
    summary = headline(worse)
    assert [row.arm for row in summary.rows if row.numbers] == [BASELINE]
    assert [row.arm for row in summary.same_order if row.numbers] == ["barrier-planned", "quality", "predicted"]
    within = {row.arm: row.numbers for row in summary.same_order}
    assert within["quality"] and within["quality"].speedup == pytest.approx(298 / 240)
    assert within["quality"].delta.value == pytest.approx(0.0)
    assert headline(sequence(), SEQUENCE).same_order[0].numbers.exact == "reference"  # type: ignore[union-attr]


def _with_psnr(of: Result, delta: float) -> Result:
    m = of.measurement
    assert m is not None and m.quality_final.psnr.value is not None
    psnr = m.quality_final.psnr.model_copy(update={"value": m.quality_final.psnr.value + delta})
    final = m.quality_final.model_copy(update={"psnr": psnr})
    return of.model_copy(update={"measurement": m.model_copy(update={"quality_final": final})})


def test_without_any_record_every_row_is_failed() -> None:
    summary = headline([])
    assert [row.label for row in summary.rows] == ["n/a"] * 4
    assert all(row.failure for row in summary.rows)
    assert summary.caption == "No cell of 8 has finished."


def test_one_run_per_arm_has_no_noise_floor() -> None:
    once = ("barrier", "quality")
    records = [Result.done(cell(arm, 0, sequence=once), measurement(arm), provenance()) for arm in once]
    summary = headline(records, once)
    assert numbers(summary, "quality").noise.reason == "n/a: one run"
    assert numbers(summary, "quality").exact.startswith("n/a")
    assert "n = 1 runs per arm (2 of 2 cells done)" in summary.caption


def test_three_runs_use_the_median() -> None:
    order = ("barrier", "quality") * 3
    records = [
        Result.done(cell(arm, k, sequence=order), measurement(arm, factor), provenance())
        for k, factor in enumerate((1.0, 1.5, 1.1))
        for arm in ("barrier", "quality")
    ]
    found = numbers(headline(records, order), "quality")
    assert (found.how, found.seconds) == ("median of 3 repeats", pytest.approx(0.240 * 1.1))


def test_a_record_of_an_arm_outside_the_sequence_is_refused() -> None:
    with pytest.raises(InputError, match=r"no place for \['predicted'\]"):
        headline(sequence(), ("barrier", "barrier-planned", "quality"))
    with pytest.raises(InputError, match="needs barrier"):
        headline([], ("quality",))


def test_the_caption_states_what_a_reviewer_asks() -> None:
    text = headline(sequence()).caption
    for part in ("padded", "n = 2 runs per arm (8 of 8", "mean of the mirrored pair", "Noise floor", "0.40 %", "1.50×",
                 "0123456789ab", "protocol inria", "1 of 1 scenes", "seed 1", "No interval"):  # fmt: skip
        assert part in text, part
    assert "MORE than 5 %" not in text and "dirty" not in text


def test_the_caption_states_what_weakens_a_number() -> None:
    many = [result(r.cell.arm, r.cell.repeat, structural_share=0.06, views=0) for r in sequence()]
    dirty = [Result.done(r.cell, measurement(r.cell.arm), provenance(dirty=True)) for r in sequence()]
    assert "6.0 % of all steps, MORE than 5 %" in headline(many).caption
    assert "Quality on 0 of 1 scenes (n/a: no test views)" in headline(many).caption
    assert "0123456789ab (dirty)" in headline(dirty).caption


@pytest.mark.parametrize(
    ("pin", "said"), [("none", False), ("taming@fd0f7d9", False), ("taming@fd0f7d9+cpu-stand-ins", True)]
)
def test_the_caption_says_where_stand_ins_ran(pin: str, said: bool) -> None:
    records = [Result.done(r.cell, measurement(r.cell.arm), provenance(fork_pin=pin)) for r in sequence()]
    caption = headline(records).caption
    assert f"fork {pin}" in caption
    assert ("CPU stand-ins took the place" in caption) is said
