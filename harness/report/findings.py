"""What a folder's exhibits show, in sentences: every number is read from their rows, none is written here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from harness.report.gates import QUALITY_BAND_DB
from harness.report.tidy import Row, Tidy, with_unit

HEAD = "headline"
PLANNED = "barrier-planned"
EXACT, LATE = ("quality", "quality-random"), ("throughput", "predicted", "predicted-random")


def findings(rows: Tidy) -> list[str]:
    """One sentence or two per finding; what has no rows is not spoken of."""
    return [line for tell in TELLERS for line in tell(rows)]


def _speed(rows: Tidy) -> Iterator[str]:
    cells, limit = rows.first(HEAD, "matrix_cells"), rows.first(HEAD, "mean_limit")
    whole = [row for row in rows.all(HEAD, "mean_speedup") if cells is not None and row.n == cells.value]
    if whole and cells is not None and limit is not None:
        each = _listed([f"{row.arm} {row.text}{_range(row)}" for row in whole])
        yield (
            f"Over barrier, the mean of all {cells.n} cells of the matrix is {each}; {limit.text} would be the limit "
            f"({whole[0].label})."
        )
    waiting = [row for row in rows.all(HEAD, "mean_speedup_same_order") if not row.arm.endswith("-random")]
    if waiting:
        each = _listed([f"{row.arm} {row.text} (n = {row.n})" for row in waiting])
        yield f"Over waiting in the plan's order of views, the mean is {each} ({waiting[0].label})."


def _order(rows: Tidy) -> Iterator[str]:
    delta, band = rows.first(HEAD, "mean_psnr_delta", PLANNED), rows.first(HEAD, "in_quality_band", PLANNED)
    if delta is not None and band is not None:
        yield (
            f"The plan's order of views alone moves test PSNR by {delta.text} on average over {delta.n} cells"
            f"{_range(delta)}, with nothing overlapped; {round((1 - band.value) * band.n)} of {band.n} cells leave the "
            f"quality band of ±{QUALITY_BAND_DB:.1f} dB by it (one seed, {delta.label})."
        )


def _exact(rows: Tidy) -> Iterator[str]:
    same = [row for arm in EXACT for row in rows.all(HEAD, "same_bits", arm)]
    apart = [row for arm in EXACT for row in rows.all(HEAD, "bits_trained_apart", arm)]
    if not same:
        return
    equal, every = sum(round(row.value * row.n) for row in same), sum(row.n for row in same)
    trained = sum(round(row.value) for row in apart)
    costs = "costs no quality" if equal == every else "is NOT exact everywhere"
    yield (
        f"Exact overlap {costs}: the final bits are those of waiting in the same order in {equal} of {every} cells. "
        f"Both arms were trained in {trained} of them; the others are timed from one training, so that theirs are "
        f"equal by construction ({same[0].label})."
    )


def _late(rows: Tidy) -> Iterator[str]:
    known = [row for arm in LATE for row in rows.all(HEAD, "mean_psnr_delta_same_order", arm)]
    if known:
        each = _listed([f"{row.arm} {row.text}{_range(row)}" for row in known])
        yield (
            f"Reading late moves test PSNR, against waiting in the same order, by {each} on average over {known[0].n} "
            f"cells (one seed, without a perturbed control; {known[0].label})."
        )


def _audits(rows: Tidy) -> Iterator[str]:
    own = [row for row in rows.all(HEAD, "failed_audits", "predicted-random") if row.pipeline]
    if own:
        each = _listed([f"{row.value:.0f} of {row.n} runs of {row.pipeline}" for row in own])
        yield f"Audits of predicted-random, after which a run waits again, failed in {each} ({own[0].label})."


def _hidden(rows: Tidy) -> Iterator[str]:
    wait, lost = (rows.first(HEAD, name, "throughput") for name in ("hidden_wait", "hidden"))
    same, cells = rows.first(HEAD, "hidden_wait_same_order", "throughput"), rows.first(HEAD, "matrix_cells")
    if wait is None or lost is None or cells is None:
        return
    paper = f" (the paper: {wait.beside})" if wait.beside else ""
    order = f"; against waiting in the same order {same.text} (n = {same.n})" if same is not None else ""
    yield (
        f"throughput, the paper's default, hides {wait.text} of what ranks wait for{paper} in the {wait.n} of "
        f"{cells.n} cells where it has a ratio{order}. With its own work counted as lost it hides {lost.text} "
        f"({wait.label})."
    )


def _city(rows: Tidy) -> Iterator[str]:
    limits = rows.all("fig13", "limit")
    if not limits:
        return
    scene, label = limits[-1].scene, limits[-1].label
    own = [row for row in rows.all("fig13", "speedup") if row.scene == scene]
    ranks = scene.rpartition(" ")[2]
    order = rows.first(HEAD, f"speedup_{ranks}", PLANNED)
    paper = next((row.beside for row in own if row.beside), "")
    each = _listed([f"{row.arm} {row.text}" for row in own])
    alone = f"; the plan's order alone is at {order.text}" if order is not None else ""
    yield (
        f"On shards of a city over {ranks} ranks: {each} of a limit of {limits[-1].text}"
        f"{f' (the paper: {paper} on its own city)' if paper else ''}{alone} ({label})."
    )


def _ablation(rows: Tidy) -> Iterator[str]:
    effects = [row for row in rows.all("fig18", "effect") if row.arm.startswith("without-")]
    if effects:
        arms = dict.fromkeys(row.arm for row in effects)
        each = _listed(
            [f"{arm.removeprefix('without-')} {_mean([r for r in effects if r.arm == arm])}" for arm in arms]
        )
        yield f"Ablation, speed of throughput ÷ that of it without a component: {each} ({effects[0].label})."


def _fallback(rows: Tidy) -> Iterator[str]:
    rejected = rows.all("fig17", "rejected", "paper-quality")
    if rejected:
        low, high = (with_unit(end(row.value for row in rejected), "share") for end in (min, max))
        share = low if low == high else f"{low} to {high}"
        yield (
            f"The paper's all-or-nothing quality-first, as we read it, rejects {share} of windows on {len(rejected)} "
            f"scenes ({rejected[0].label})."
        )


TELLERS: Sequence[Callable[[Tidy], Iterator[str]]] = (
    _speed, _order, _exact, _late, _audits, _hidden, _city, _ablation, _fallback,
)  # fmt: skip


def _range(row: Row) -> str:
    """The smallest and the largest place, in brackets."""
    if row.low is None or row.high is None:
        return ""
    return f" [{with_unit(row.low, row.unit)}, {with_unit(row.high, row.unit)}]"


def _mean(rows: Sequence[Row]) -> str:
    return with_unit(sum(row.value for row in rows) / len(rows), rows[0].unit)


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
