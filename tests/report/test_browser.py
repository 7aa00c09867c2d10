"""The report in a real browser, at laptop and phone size: it loads from disk alone and can be read there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.report.page import write_page
from paper_figs.cells import Cells
from paper_figs.make import make_all
from paper_figs.registry import exhibits
from tests.paper_figs.records import smoke
from tests.report.browser import LAPTOP, PHONE, Browser, Screen, find_browser

SCREENS = pytest.mark.parametrize("screen", [LAPTOP, PHONE], ids=["laptop", "phone"])
SMALLEST = 11.0  # px: text below it is not read on a phone
PARTS = ("matrix", "timeline", "planner", "locality", "locality_graphs", "tau")
SHOWN = ("headline", "fig3", "fig5", "fig7", "fig9", "fig14", "table2", "table3")

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with exhibits that are made, one that is missing, and a table."""
    root = smoke(tmp_path_factory.mktemp("smoke"), *PARTS)
    make_all(exhibits(SHOWN), Cells(root), whole=False)
    return write_page(root)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = find_browser()
    if path is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    with Browser(path) as opened:
        yield opened


@SCREENS
def test_it_loads_from_disk_and_asks_for_nothing(browser: Browser, page: Path, screen: Screen) -> None:
    opened = browser.open(page, screen)
    assert opened.requests == [page.as_uri()]
    assert opened.complaints == []
    assert browser.evaluate("document.readyState") == "complete" and "Odin" in str(browser.evaluate("document.title"))


@SCREENS
def test_nothing_is_wider_than_the_screen(browser: Browser, page: Path, screen: Screen) -> None:
    browser.open(page, screen)
    browser.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert browser.evaluate("innerWidth") == screen.width
    assert browser.evaluate("document.documentElement.scrollWidth") == screen.width
    wide = browser.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll, pre')"
        " && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName + ' ' + e.textContent.slice(0, 40))"
    )
    assert wide == []


@SCREENS
def test_pictures_are_there_told_and_large_enough_to_read(browser: Browser, page: Path, screen: Screen) -> None:
    browser.open(page, screen)
    images = browser.evaluate(
        "[...document.images].map(e => ({alt: e.alt, natural: e.naturalWidth, shown: e.clientWidth}))"
    )
    assert isinstance(images, list) and len(images) == 6  # a table has none, and one exhibit is missing
    assert all(len(one["alt"]) > 20 and one["natural"] > 0 for one in images)
    # Figures are at most 6.9 inches wide with text of 6.5 points and more; 42 rem keep that above 7 px.
    assert all(one["shown"] >= min(one["natural"], 600) for one in images)
    assert all(str(one["alt"]).startswith(("Headline", "Fig. ", "Table ")) for one in images)


@SCREENS
def test_the_headline_comes_first_and_no_text_is_tiny(browser: Browser, page: Path, screen: Screen) -> None:
    browser.open(page, screen)
    heads = browser.evaluate(
        "[...document.querySelectorAll('h2')].map(e => [e.textContent, e.getBoundingClientRect().top])"
    )
    assert isinstance(heads, list) and heads[0][0] == "Headline" and heads[0][1] < screen.height
    tops = [top for _, top in heads]
    assert tops == sorted(tops)
    first = browser.evaluate("document.querySelector('table').getBoundingClientRect().top")
    assert isinstance(first, float | int) and first < screen.height
    sizes = browser.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => e.innerText && !e.children.length)"
        ".map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert isinstance(sizes, list) and min(sizes) >= SMALLEST


def test_the_check_sees_what_it_must_refuse(browser: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<meta name=viewport content='width=device-width'><img src=absent.png><p style='width:900px'>wide</p>"
        "<script>console.error('oh'); undefined_name</script>"
    )
    opened = browser.open(bad, PHONE)
    assert [Path(url).name for url in opened.requests] == ["bad.html", "absent.png"]
    said = " ".join(opened.complaints)
    assert "oh" in said and "undefined_name" in said and "absent.png" in said
    assert int(browser.evaluate("document.documentElement.scrollWidth")) > PHONE.width  # type: ignore[arg-type]
