"""The caption under the headline's table and figure: n, order, noise floor, label, machine, commit, caveats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.measure.breakdown import Breakdown
from harness.measure.statistics import NoiseFloor, typical_time
from harness.report.reduction import reduction_lines
from harness.report.rival import Rival
from harness.run.fork_pin import STAND_INS
from harness.store.record import Reading
from harness.store.schema import Label, Measurement, Result
from odin.arms import Reads, Waits
from odin.arms import arm as arm_named

STRUCTURAL_LIMIT = 0.05
PAPER_IDLE = (1.0, 26.0)  # % of a step that a GPU idles, Fig. 1

MEANING = {
    Label.MEASURED: "wall clock of real processes, nothing emulated",
    Label.SHAPED: "wall clock of real processes, collectives delayed by an emulated link",
    Label.PADDED: "wall clock of real processes, collectives delayed by an emulated link and phases padded to "
    "nominal times",
    Label.VIRTUAL: "virtual clock over modelled compute and link, real numerics",
    Label.DISTURBED: "faults were injected on purpose (faults=…): a number of the harness, not of an arm",
}
# Of exhibits that no clock is behind; no record has this label.
COMPUTED, COMPUTED_MEANS = "computed", "from metadata, or from the state of a model in training; no clock is involved"


def caption(
    results: Sequence[Result],
    sequence: Sequence[str],
    noise: NoiseFloor,
    best: Reading,
    differences: Mapping[str, str],
    rival: Rival | None = None,
) -> str:
    """One sentence per line. Without a finished cell it says only that.

    differences: exact arm → largest difference of a parameter, where final states are not compared bit for bit
    rival:       the other synchronized baseline, if it is in the sequence
    """
    done = [(r, r.measurement) for r in results if r.measurement is not None]
    if not done:
        return f"No cell of {len(sequence)} has finished."
    result, measurement = done[0]
    lines = [
        *_workload(result, measurement),
        *reduction_lines(results, differences),
        *_label(results, measurement),
        *_repeats(sequence, len(done), noise),
        *_jitter([m for _, m in done]),
        *([rival.says] if rival else []),
        *_retimed(done),
        f"Limit (baseline step ÷ mean useful time of its busiest rank): {best.text('.2f', unit='×')}.",
        idle_line(
            [
                (arm, m.breakdown)
                for arm in dict.fromkeys(sequence)
                for r, m in done
                if (r.cell.arm, r.cell.repeat) == (arm, 0)
            ]
        ),
        *_structural([m for _, m in done]),
        *_conflicts(done),
        *_selective(done),
        *_quality([m for _, m in done]),
        *_origin([r for r, _ in done]),
    ]
    return "\n".join(lines)


def idle_line(cells: Sequence[tuple[str, Breakdown]]) -> str:
    """Idle share of the ranks of each (arm, breakdown), as Fig. 1 shows it, beside the paper's range."""
    shares = ", ".join(f"{arm} {parts.idle_text}" for arm, parts in cells)
    low, high = PAPER_IDLE
    return (
        f"Idle share of a rank, mean (least to most idle rank): {shares}; the paper's Fig. 1 has {low:.0f} to "
        f"{high:.0f} % per GPU."
    )


def _workload(result: Result, m: Measurement) -> Iterator[str]:
    yield (
        f"{result.cell.study}, scene {result.cell.scene}: {m.ranks} ranks, {m.global_batch} images per step, "
        f"{m.steps} steps ({m.images} images) per cell, {m.primitives.initial} primitives, "
        f"seed {result.cell.seeds.run}."
    )


def _label(results: Sequence[Result], m: Measurement) -> Iterator[str]:
    for label in sorted({r.cell.label for r in results}):
        yield f"Evidence label of every number: {label.value} ({MEANING[label]})."
    if m.link is not None:
        yield f"Link {m.link.name}: {m.link.beta / 1e6:.4g} MB/s, {m.link.alpha * 1e6:.4g} µs per message."
    if m.padding_scale is not None:
        yield f"Padding scale {m.padding_scale:.3g} on phases and link, profile {m.profile}."


def _repeats(sequence: Sequence[str], done: int, noise: NoiseFloor) -> Iterator[str]:
    counts = sorted({sequence.count(arm) for arm in sequence})
    how = " / ".join(typical_time([1.0] * n).how for n in counts)
    n = " or ".join(map(str, counts))
    yield f"n = {n} runs per arm ({done} of {len(sequence)} cells done), in the order {', '.join(sequence)}."
    yield f"Time of an arm: {how}."
    each = ", ".join(f"{arm} {spread.text('.2f', 100, ' %')}" for arm, spread in noise.by_arm.items())
    floor = noise.overall.text(".2f", 100, " %")
    yield f"Noise floor, max |t_i/t_j − 1| of an arm against itself: {floor} ({each})."
    yield "No interval: one seed, and repeats change only the timing. A ratio within the noise floor is a tie."


def _retimed(done: Sequence[tuple[Result, Measurement]]) -> Iterator[str]:
    """Cells of the virtual engine that were not trained; its prices have no spread, so repeats are deterministic."""
    timed = [f"{r.cell.arm} #{r.cell.repeat + 1}" for r, m in done if m.retimed_from is not None]
    if timed:
        yield (
            f"Not trained, but timed from a cell that trains the same bits (repeats are deterministic): "
            f"{', '.join(timed)}."
        )


def _jitter(done: Sequence[Measurement]) -> Iterator[str]:
    found = {(m.jitter.sigma, len(m.jitter.step_seconds)) for m in done if m.jitter is not None}
    for sigma, draws in sorted(found):
        yield (
            f"Re-timed {draws} times with every phase varying by {100 * sigma:g} % (lognormal, independent, the same "
            "work alike in every arm; assumed: the sources of prices name no spread)."
        )


def _structural(done: Sequence[Measurement]) -> Iterator[str]:
    share = max(m.structural_share for m in done)
    many = f", MORE than {100 * STRUCTURAL_LIMIT:.0f} %" if share > STRUCTURAL_LIMIT else ""
    yield f"Structural steps (always a barrier): {100 * share:.1f} % of all steps{many}."


def _conflicts(done: Sequence[tuple[Result, Measurement]]) -> Iterator[str]:
    """Why two of the three kinds of conflict are empty (odin/hazards.py)."""
    compared = [(r.cell.arm, m.windows) for r, m in done if m.windows.waw is not None]
    if not compared:
        return
    but = dict.fromkeys(arm for arm, w in compared if w.raw or w.war)
    tighter = f", but for {', '.join(but)}, whose W⁺ are the rows active at a view's last visit" if but else ""
    yield (
        "Rows in conflict: W⁺ = R⁺ in splatting, a view may write every row that it may read; so a row in conflict is "
        f"both read and written by the next step (WAW), and rows that are RAW only or WAR are 0{tighter}."
    )


def _selective(done: Sequence[tuple[Result, Measurement]]) -> Iterator[str]:
    """Where a prediction is no step (D§6 Predicted reads)."""
    arms = dict.fromkeys(r.cell.arm for r, _ in done if _optimizer(r) == "selective" and _predicts(r.cell.arm))
    if arms:
        yield (
            f"Optimizer selective Adam, which moves no row without a gradient: a predicted read of {', '.join(arms)} "
            "equals a stale one."
        )


def _optimizer(result: Result) -> object:
    pipeline = result.cell.config.get("pipeline")
    return pipeline.get("optimizer") if isinstance(pipeline, Mapping) else None


def _predicts(name: str) -> bool:
    """Whether the arm reads rows late, at predicted values."""
    arm = arm_named(name)
    return arm.reads is Reads.PREDICTED and arm.waits in (Waits.NOTHING, Waits.GATED, Waits.LITERAL)


def _quality(done: Sequence[Measurement]) -> Iterator[str]:
    quality = done[0].quality_final
    if not quality.views:
        yield f"Quality on 0 of 1 scenes ({quality.psnr.reason})."
        return
    yield (
        f"Quality on 1 of 1 scenes: mean of {len(quality.views)} test views, protocol {quality.protocol}; without a "
        "perturbed control, so a small difference of an arm that is not exact is no finding."
    )


def _origin(done: Sequence[Result]) -> Iterator[str]:
    p = done[0].provenance
    commits = sorted({f"{r.provenance.git_sha[:12]}{' (dirty)' if r.provenance.dirty else ''}" for r in done})
    yield f"Commit {', '.join(commits)}, code {p.code_version}, fork {p.fork_pin}."
    if p.fork_pin.endswith(STAND_INS):
        yield (
            "CPU stand-ins took the place of the fork's own extensions: its Python and losses are real, its times and "
            "its rasterizer are not those of its users."
        )
    job = f", Slurm job {p.slurm.job}" if p.slurm else ""
    ranks = ", ".join(sorted({r.provenance.priority for r in done}))
    yield f"{p.cpu}, {p.cores} cores, GPU {p.gpu}, host {p.hostname}{job}; torch {p.versions.torch}; ranks ran {ranks}."
