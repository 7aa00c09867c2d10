"""README and docs/results.md are true: their commands parse, files and sections exist, the first screen has a table."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from harness.cli import main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")


def test_make_knows_the_two_commands() -> None:
    for target in ("headline", "test"):
        plan = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True)
        assert "odin-bench" in plan.stdout or "pytest" in plan.stdout


def commands() -> list[list[str]]:
    found = re.findall(r"odin-bench (reproduce headline[^#\n]*)", README)
    found += [f"reproduce headline {args}" for args in re.findall(r'make headline ARGS="([^"]*)"', README + RESULTS)]
    # Inside a paragraph a command runs over lines, and `…` stands for the capture.
    found += re.findall(r"`(?:chrt --rr 10 )?odin-bench\s+(reproduce\s+headline[^`]*)`", RESULTS)
    return [line.replace("scene=… images=images_4", "scene=rooms").split() for line in found]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_commands_are_accepted(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Every command is checked up to the point where it would start to train."""
    dry = words if "--dry-run" in words else [*words, "--dry-run"]
    assert main(dry) == 0
    order = "in order" if "mirrored=false" in words else "in mirrored order"
    assert f"cells {order}" in capsys.readouterr().out


def test_named_files_exist() -> None:
    named = re.findall(r"`((?:odin|pipelines|harness|tests|benchmarks)/[\w./]+)`", README + RESULTS)
    assert len(named) >= 7
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_results_it_links_to_exist() -> None:
    """Anchors as GitHub makes them: lower case, punctuation gone, spaces as hyphens."""
    heads = re.findall(r"^## (.*)$", RESULTS, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
    linked = re.findall(r"docs/results\.md#([^)]*)\)", README) + re.findall(r"\]\(#([^)]*)\)", RESULTS)
    assert linked
    assert [anchor for anchor in linked if anchor not in anchors] == []


def test_the_first_screen_has_the_table() -> None:
    table = README.split("<!-- headline:begin -->")[1].split("<!-- headline:end -->")[0]
    assert README.index("<!-- headline:end -->") < 3000
    for arm in ("barrier", "barrier-planned", "quality", "predicted"):
        assert re.search(rf"\| {arm} \| padded \|", table), f"no row of {arm} with its label"
