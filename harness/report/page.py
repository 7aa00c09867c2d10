"""`report.html`: one static page from records, headline tables and exhibits; all is in it, it needs no network."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from harness.report.caption import COMPUTED, COMPUTED_MEANS, MEANING
from harness.report.clocks import clock_lines
from harness.report.exhibits import INDEX, Shown
from harness.report.findings import findings
from harness.report.links import by_construction, fitted, link_line
from harness.report.tidy import Tidy
from harness.store.files import write_text
from harness.store.identity import canonical_json
from harness.store.schema import Label, Result
from harness.store.store import TRACE, CellStore
from harness.study.scale import load_scale
from odin.errors import InputError

PAGE, TEMPLATE = "report.html", "page.html.j2"
FAILED = "FAILED "
MOST_TRACES = 40  # a page with thousands of links helps nobody; the folder holds the others


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Cells of one tree on one machine."""

    commit: str
    machine: str
    torch: str
    labels: str
    cells: int
    failed: int


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A link to a recorded timeline, relative to the page."""

    href: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Sequence:
    """The headline of one sequence of cells, as `odin-bench report` has written it. picture: as a data URI."""

    name: str
    text: str
    picture: str
    alt: str


def write_page(root: Path) -> Path:
    """Write `report.html` into a folder of records and return its path.

    Raises InputError where there is nothing to report, RunError when the disk refuses.
    """
    results = list(CellStore(root, create=False).results()) if (root / "cells").is_dir() else []
    exhibits = Shown.load(root / "figures" / INDEX)
    if not results and not exhibits:
        raise InputError(
            f"{root} holds nothing to report. Make it with: odin-bench reproduce all scale=smoke out={root}"
        )
    path = root / PAGE
    write_text(path, page(root, results, exhibits))
    return path


def page(root: Path, results: list[Result], exhibits: list[Shown]) -> str:
    """The page as text; the same records give the same bytes."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    below = sequences(root)
    made = [one for one in exhibits if not one.missing]
    rows = Tidy(root / "figures", [one.name for one in made])
    labels = meanings(results, made)
    links = fitted(r.measurement.link.name for r in results if r.measurement is not None and r.measurement.link)
    return environment.get_template(TEMPLATE).render(
        headline=next((one for one in made if one.verdicts), None),
        made=made,
        missing=[one for one in exhibits if one.missing],
        pictures={one.name: picture(root / "figures" / one.picture) for one in made if one.picture},
        captions={one.name: caption_lines(one) for one in made},
        scale=scale_note(root),
        failed=failed_lines(made, results, below),
        labels=labels,
        found=findings(rows),
        clocks=clock_lines(rows, [label for label, _ in labels]),
        construction=by_construction(links) if links else "",
        links=[(link.name, link_line(link)) for link in links],
        origins=origins(results),
        traces=traces(root, results),
        more_traces=max(0, sum(r.measurement is not None for r in results) - MOST_TRACES),
        sequences=below,
        folder=root.name,
    )


def caption_lines(one: Shown) -> list[str]:
    """A caption without the title, which stands above it, and without what failed, which has a list of its own."""
    lines = [line for line in one.caption.splitlines() if not line.startswith(FAILED)] or [""]
    return [lines[0].removeprefix(one.title).removeprefix(".").strip(), *lines[1:]]


def scale_note(root: Path) -> str:
    """What numbers of a scale that is only there to run are worth; the empty string for others."""
    studies = [path.name for path in (root / "studies").glob("*/") if path.name != "manifests"]
    if not studies or not all(name.startswith("smoke-") for name in studies):
        return ""
    return f"Scale smoke. {load_scale('smoke').about} The targets below are not meant for it."


def picture(path: Path) -> str:
    """A PNG as a data URI; the empty string where it is gone."""
    try:
        return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"
    except OSError:
        return ""


def failed_lines(made: Iterable[Shown], results: Iterable[Result], below: Iterable[Sequence] = ()) -> list[str]:
    """Every pair that failed a gate and every cell that failed, each said once.

    below: the headlines of single sequences; what failed there is named with its sequence
    """
    said = [line.removeprefix(FAILED) for one in made for line in one.caption.splitlines() if line.startswith(FAILED)]
    said += [
        f"{one.name}: {line.removeprefix(FAILED)}"
        for one in below
        for line in one.text.splitlines()
        if line.startswith(FAILED)
    ]
    said += [f"{r.cell.scene} {r.cell.arm}, {r.status.value}: {r.reason}" for r in results if r.measurement is None]
    return list(dict.fromkeys(said))


def meanings(results: Iterable[Result], made: Iterable[Shown]) -> list[tuple[str, str]]:
    """Every label on the page and what it means."""
    known = {label.value: text for label, text in MEANING.items()}
    known[COMPUTED] = COMPUTED_MEANS
    seen = {r.cell.label.value for r in results}
    for one in made:
        if "label" in one.columns:
            place = one.columns.index("label")
            seen |= {label for row in one.rows for label in row[place].split(" / ")}
    return [(label, known[label]) for label in (*[each.value for each in Label], COMPUTED) if label in seen]


def origins(results: Iterable[Result]) -> list[Origin]:
    """Where the cells come from, one line per tree and machine."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        p = result.provenance
        key = canonical_json([p.git_sha, p.dirty, p.cpu, p.gpu, p.cores, p.versions.torch])
        groups.setdefault(key, []).append(result)
    found = []
    for group in groups.values():
        p = group[0].provenance
        found.append(
            Origin(
                commit=p.git_sha[:12] + (" (with changes)" if p.dirty else ""),
                machine=f"{p.cpu}, {p.cores} cores, GPU {p.gpu}",
                torch=p.versions.torch,
                labels=", ".join(sorted({r.cell.label.value for r in group})),
                cells=sum(r.measurement is not None for r in group),
                failed=sum(r.measurement is None for r in group),
            )
        )
    return sorted(found, key=lambda origin: (origin.commit, origin.machine))


def traces(root: Path, results: Iterable[Result]) -> list[Trace]:
    """Recorded timelines of first runs that are there, by scene and arm."""
    found = []
    for result in results:
        if result.measurement is None or result.cell.repeat or not (root / "cells" / result.cell_id / TRACE).exists():
            continue
        pipeline = result.cell.config.get("pipeline")
        name = pipeline.get("name") if isinstance(pipeline, dict) else ""
        text = f"{result.cell.scene}, {name}, {_ranks(result.measurement.ranks)}, {result.cell.arm}"
        found.append(Trace(href=f"cells/{result.cell_id}/{TRACE}", text=f"{text} ({result.cell.label.value})"))
    return sorted(found, key=lambda trace: (trace.text, trace.href))[:MOST_TRACES]


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"


def sequences(root: Path) -> list[Sequence]:
    """Headlines that were written below `report/`."""
    found = []
    for path in sorted((root / "report").glob("*/headline.txt")):
        name = path.parent.name
        alt = f"Throughput over barrier's of every arm and the parts of a step, sequence {name}; its numbers follow."
        text = path.read_text(encoding="utf-8")
        found.append(Sequence(name=name, text=text, picture=picture(path.with_suffix(".png")), alt=alt))
    return found
