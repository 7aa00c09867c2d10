"""Captions, generated from rows and records: what is drawn, n, seeds, interval, label, commit, what failed.

A module may have `remarks(cells)`, sentences that follow its note and depend on the records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pandas as pd

from harness.report.caption import COMPUTED, COMPUTED_MEANS, MEANING, STRUCTURAL_LIMIT
from harness.report.clocks import JITTERED
from harness.store.schema import Label
from paper_figs.cells import ON_DEVICE, Cells, Pair
from paper_figs.exhibit import Exhibit, Study
from paper_figs.tidy import number

MOST_STATED = 6  # numbers of the paper that a caption repeats
MOST_FAILED = 3  # failures that a caption names; of more it gives counts


def caption(exhibit: Exhibit, frame: pd.DataFrame, cells: Cells, *, whole: bool = False) -> str:
    """One sentence or two per line; ends with the commit.

    whole: with a FAILED line for every arm of these pairs that has no number, shown or not; the report lists them
    """
    pairs = used(exhibit, cells)
    lines = [
        f"{exhibit.title}{'' if exhibit.title.endswith('?') else '.'} {exhibit.note}",
        *getattr(exhibit, "remarks", _nothing)(cells),
        _paper(frame),
        *_data(pairs),
        *_interval(exhibit, frame, pairs),
        *_labels(frame),
        *_stand_in(pairs),
        *_on_device(pairs),
        *_structural(pairs),
        *_failed(exhibit, frame, pairs, whole=whole),
        f"Commit {', '.join(sorted({c for text in frame['commit'] for c in text.split(', ')}))}.",
    ]
    return "\n".join(lines)


def used(exhibit: Exhibit, cells: Cells) -> list[Pair]:
    """The pairs that an exhibit shows: those of its studies, unless the module says which of them."""
    own = getattr(exhibit, "used", None)
    if own is not None:
        return list(own(cells))
    return cells.pairs(*(need.role for need in exhibit.needs if isinstance(need, Study)))


def _paper(frame: pd.DataFrame) -> str:
    stated = frame[frame["paper"].notna()].drop_duplicates(["quantity", "paper"])
    if stated.empty:
        return "The paper states no number for this."
    each = [
        f"{row['quantity'].replace('_', ' ')}{_of(row)} {number(row['paper'], row['unit'])}"
        for row in stated.head(MOST_STATED).to_dict("records")
    ]
    more = f" and {len(stated) - MOST_STATED} more" if len(stated) > MOST_STATED else ""
    return f"The paper states: {', '.join(each)}{more}."


def _of(row: dict) -> str:
    names = ("pipeline", "arm") if row["pipeline"] else ("scene", "arm")
    where = ", ".join(row[name] for name in names if row[name])
    return f" ({where})" if where else ""


def _data(pairs: Sequence[Pair]) -> Iterator[str]:
    if not pairs:
        return
    seeds = sorted({pair.seed for pair in pairs})
    steps = sorted({int(pair.setting("scale", "steps")) for pair in pairs})
    ranks, batches = sorted({pair.ranks for pair in pairs}), sorted({pair.batch for pair in pairs})
    scenes = list(dict.fromkeys(pair.scene for pair in pairs))
    yield (
        f"n = {len(pairs)} pairs of {len(scenes)} scene(s) ({', '.join(scenes)}); seed(s) {_list(seeds)}; "
        f"{_list(ranks)} ranks, {_list(batches)} images per step, {_list(steps)} steps."
    )


def _interval(exhibit: Exhibit, frame: pd.DataFrame, pairs: Sequence[Pair]) -> Iterator[str]:
    if frame["low"].isna().all():
        runs = max((p.sequence.count(arm) for p in pairs for arm in p.sequence), default=1)
        once = f"{runs} runs" if runs > 1 else "one run"
        yield f"No interval: one seed, {once} per arm." if pairs else "No interval: one run."
        return
    own = getattr(exhibit, "brackets", "")
    if own:
        yield own
        return
    means = frame["quantity"].str.startswith("mean_") | frame["scene"].str.startswith("mean of")
    means |= frame["quantity"].str.startswith("hidden") & (frame["scene"] == "") & (frame["pipeline"] == "")
    jittered = frame["quantity"] == JITTERED
    if frame.loc[~means & ~jittered, "low"].notna().any():
        yield "Brackets: Student's 95 % interval over seeds (of ratios: on logarithms)."
    if frame.loc[means, "low"].notna().any():
        yield "Brackets of a mean over places: the smallest and the largest place."
    if frame.loc[jittered, "low"].notna().any():
        yield "Brackets of a mean where phases vary: the smallest and the largest re-timing."


def _labels(frame: pd.DataFrame) -> Iterator[str]:
    found = sorted({label for text in frame["label"] for label in text.split(" / ")})
    meaning = {label.value: text for label, text in MEANING.items()} | {COMPUTED: COMPUTED_MEANS}
    each = "; ".join(f"{label} ({meaning[label]})" for label in found)
    yield f"Evidence label{'s' if len(found) > 1 else ''}: {each}."


def _stand_in(pairs: Sequence[Pair]) -> Iterator[str]:
    scaled = sorted({(p.setting("compute", "scale_rows"), p.setting("compute", "scale_pixels")) for p in pairs})
    for rows, pixels in scaled:
        if (rows, pixels) != (1, 1):
            yield f"Small scenes stand for large ones: a row for {rows:g}, a pixel for {pixels:g}."
    prices = sorted({str(p.setting("compute", "name")) for p in pairs if Label.VIRTUAL.value in p.label})
    links = sorted({str(p.setting("link", "name")) for p in pairs})
    if prices:
        yield f"Prices of {', '.join(prices)}, link {', '.join(links)}: files with sources, nothing was timed here."
    elif pairs:
        yield f"Link {', '.join(links)}."


def _on_device(pairs: Sequence[Pair]) -> Iterator[str]:
    switched = sorted({arm for pair in pairs for arm in pair.sequence if arm.endswith(ON_DEVICE)})
    if switched:
        yield f"On the device, arms ran as {', '.join(switched)}."


def _structural(pairs: Sequence[Pair]) -> Iterator[str]:
    shares = [m.structural_share for p in pairs for arm in dict.fromkeys(p.sequence) if (m := p.run(arm)) is not None]
    if shares and max(shares) > STRUCTURAL_LIMIT:
        yield (
            f"Structural steps, always a barrier, are up to {100 * max(shares):.1f} % of all steps, MORE than "
            f"{100 * STRUCTURAL_LIMIT:.0f} %."
        )


def _failed(exhibit: Exhibit, frame: pd.DataFrame, pairs: Sequence[Pair], *, whole: bool) -> Iterator[str]:
    """A line each for a few failures of arms that the exhibit shows, else a count per arm; whole: lines for all."""
    every = [one for pair in pairs for one in _failures(pair)]
    arms = {*frame["arm"], *getattr(exhibit, "ARMS", ())}
    shown = [one for one in every if one[0] in arms or one[0].partition(":")[0] in arms]
    if len(shown) > MOST_FAILED:
        each = [_count(arm, shown, pairs) for arm in dict.fromkeys(arm for arm, _, _ in shown)]
        yield f"Failed cells, each named in the report: {'; '.join(each)}."
    named = every if whole else shown if len(shown) <= MOST_FAILED else []
    for _, _, text in named:
        yield f"FAILED {text}."


def _failures(pair: Pair) -> Iterator[tuple[str, str, str]]:
    """Arm, gate and sentence of each arm that has no number."""
    texts = pair.failures
    rows = [row for row in pair.headline.rows if row.numbers is None] if texts else []
    for row, text in zip(rows, texts, strict=True):
        yield row.arm, row.failure.partition(":")[0], text


def _count(arm: str, shown: Sequence[tuple[str, str, str]], pairs: Sequence[Pair]) -> str:
    """As "quality 12 of 20 (quality band)"; where gates differ, each with its own count."""
    gates = Counter(gate for name, gate, _ in shown if name == arm)
    cells = sum(arm in pair.sequence for pair in pairs)
    why = ", ".join(gate if len(gates) == 1 else f"{gate} {count}" for gate, count in gates.items())
    return f"{arm} {gates.total()} of {cells} ({why})"


def _nothing(cells: Cells) -> Sequence[str]:
    return ()


def _list(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
