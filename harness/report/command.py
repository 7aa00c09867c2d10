"""`odin-bench report`: the headline of every sequence, or of a study its page of exhibits."""

from __future__ import annotations

from pathlib import Path

from harness.report.exhibits import INDEX, Shown
from harness.report.headline import report_headline
from harness.report.page import write_page


def report(root: Path) -> int:
    """Write `report.html`; for sequences that no study asked for, their tables and figures first.

    Returns 1 when a row of a headline has FAILED, else 0. Raises InputError where there is nothing to report.
    """
    studied = (root / "studies").is_dir() or (root / "figures" / INDEX).exists()
    code = 0 if studied else report_headline(root)
    path = write_page(root)
    if studied:
        exhibits = Shown.load(root / "figures" / INDEX)
        made = sum(not one.missing for one in exhibits)
        more = "" if exhibits else f" None is made yet: odin-bench figures out={root}"
        print(f"{made} of {len(exhibits)} exhibits.{more}")
    print(f"Report: {path}")
    return code
