"""The report page: all in one file, accessible, and silent about nothing that failed."""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from harness.cli import main
from harness.report.exhibits import INDEX, Shown
from harness.report.page import failed_lines, sequences, write_page
from harness.store.files import write_text
from harness.store.schema import Result
from harness.store.store import TRACE, CellStore
from odin.errors import InputError
from tests.store.samples import cell, provenance, sequence

VOID = frozenset({"meta", "link", "img", "br"})
PNG = bytes.fromhex("89504e470d0a1a0a")
VERDICT = {"target": "mean", "aim": "≥ 1.2×", "reached": "1.1×", "paper": "", "verdict": "NOT met", "why": "Because."}
COMMAND = "odin-bench reproduce all only="
SHOWN = (
    Shown(
        name="headline",
        title="Headline",
        command=f"{COMMAND}matrix",
        caption="Text.\nFAILED a pair: late.",
        alt="means",
        picture="headline.png",
        columns=("quantity", "value", "label"),
        rows=(("speedup <b>", "1.2×", "virtual"),),
        verdicts=(VERDICT,),
    ),
    Shown(name="table3", title="Table 3", command=f"{COMMAND}planner", missing="missing: table planner"),
)


class Page(HTMLParser):
    """Tags with their attributes, and whether all were closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def all(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    store = CellStore(tmp_path)
    for result in sequence():
        store.write_result(result)
        write_text(store.path(result.cell_id) / TRACE, "{}")
    store.write_result(Result.failed(cell("barrier", 0, scene="fox", manifest="ab" * 32), "rank 1 died", provenance()))
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "headline.png").write_bytes(PNG)
    write_text(tmp_path / "figures" / INDEX, json.dumps([one.plain() for one in SHOWN]))
    return tmp_path


def test_the_page_needs_nothing_but_itself(root: Path) -> None:
    text = write_page(root).read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    sources = [a[key] for _, a in page.tags for key in ("src", "href") if a.get(key)]
    loaded = [a.get("src") or a["href"] for tag in ("img", "link", "script") for a in page.all(tag)]
    assert loaded and all(source.startswith("data:") for source in loaded)
    assert [s for s in sources if s.startswith("http")] == ["https://ui.perfetto.dev"]  # a link, which loads nothing
    assert "url(" not in text and "@import" not in text and not page.all("script")
    assert str(root) not in text.replace(root.name, "")


def test_it_can_be_read_by_everybody(root: Path) -> None:
    page = Page(write_page(root).read_text(encoding="utf-8"))
    assert page.all("html")[0]["lang"] == "en" and any(a.get("name") == "viewport" for a in page.all("meta"))
    assert page.all("img") and all(a["alt"] for a in page.all("img"))
    identifiers = [a["id"] for _, a in page.tags if "id" in a]
    assert len(identifiers) == len(set(identifiers))
    inner = [a["href"][1:] for a in page.all("a") if a["href"].startswith("#")]
    assert inner and set(inner) <= set(identifiers)
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1 and all(b <= a + 1 for a, b in pairwise(levels))


def test_it_says_what_failed_and_what_is_missing(root: Path) -> None:
    text = write_page(root).read_text(encoding="utf-8")
    assert "a pair: late." in text and "fox barrier, failed: rank 1 died" in text
    assert "missing: table planner" in text and "odin-bench reproduce all only=planner" in text
    assert 'not" data-is="verdict">NOT met' in text and "Because." in text
    assert "speedup &lt;b&gt;" in text and "<b>" not in text
    assert "0123456789ab" in text and "Example CPU" in text and "padded" in text
    hrefs = [a["href"] for a in Page(text).all("a") if a["href"].endswith(TRACE)]
    assert len(hrefs) == 4 and all((root / href).exists() for href in hrefs)


def test_a_rerun_gives_the_same_bytes(root: Path) -> None:
    assert write_page(root).read_bytes() == write_page(root).read_bytes()


def test_the_command_writes_it_and_says_where(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(root)]) == 0
    assert f"1 of 2 exhibits.\nReport: {root / 'report.html'}" in capsys.readouterr().out


def test_sequences_that_no_study_asked_for_are_on_it(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    for result in sequence():
        store.write_result(result)
    assert main(["report", str(tmp_path)]) == 0
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert len(page.all("img")) == 1 and page.all("pre")


def test_a_failed_row_of_such_a_sequence_is_among_what_failed(tmp_path: Path) -> None:
    """The other sequence of the folder is whole, so the page has the list of what failed from this one alone."""
    store = CellStore(tmp_path)
    for result in sequence()[:-1]:
        store.write_result(result)
    assert main(["report", str(tmp_path)]) == 1
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    failures = [line for line in failed_lines((), (), sequences(tmp_path)) if "complete" in line]
    assert failures and all(html.escape(line) in text for line in failures)
    assert "Nothing: every pair" not in text


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to report"):
        write_page(tmp_path)
