"""Three exhibits of scale=smoke through the public command, as CI runs them; then one cell is taken away, and again.

    python -m tests.exhibits [FOLDER]

A study of real cells (Fig. 6 and 7), the locality graphs of a model in training (Fig. 5) and the planner (Table 3).
Only the missing cell may run the second time, and every file that shows numbers must come out with the same bytes:
cells run on a computed clock, and the planner is not timed again.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.store.schema import Result
from harness.store.store import RESULT, load_result

PARTS = "timeline,locality_graphs,planner"
PICTURES = ("fig5", "fig6", "fig7", "table3")
TAKEN = "predicted"  # trained and not timed from another cell, as exact arms are


def reproduce(root: Path) -> float:
    """Run the command; its wall seconds. Raises CalledProcessError."""
    started = time.monotonic()
    script = "import sys; from harness.cli import main; sys.exit(main(sys.argv[1:]))"
    words = ["reproduce", "all", "scale=smoke", f"only={PARTS}", f"out={root}"]
    subprocess.run([sys.executable, "-c", script, *words], check=True)
    return time.monotonic() - started


def records(root: Path) -> dict[str, int]:
    """Time of change of every record and table, by its path."""
    paths = (*root.glob(f"cells/*/{RESULT}"), *root.glob("benchmarks/*.csv"))
    return {str(path.relative_to(root)): path.stat().st_mtime_ns for path in paths}


def figures(root: Path) -> dict[str, bytes]:
    """What the exhibits show: pictures, captions and numbers."""
    return {
        path.name: path.read_bytes() for name in PICTURES for path in sorted((root / "figures").glob(f"{name}[._]*"))
    }


def check(root: Path) -> list[str]:
    """Run, take a cell away, run again; what is wrong."""
    seconds, before = reproduce(root), records(root)
    shown, text = figures(root), (root / "report.html").read_text(encoding="utf-8")
    wrong = [f"{name} has no picture" for name in PICTURES if f"{name}.png" not in shown]
    wrong += [f"report.html does not show {name}" for name in PICTURES if f'id="{name}"' not in text]
    taken = next(path for path in root.glob(f"cells/*/{RESULT}") if _arm(load_result(path)) == TAKEN).parent
    shutil.rmtree(taken)
    again, after = reproduce(root), records(root)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if changed != [f"cells/{taken.name}/{RESULT}"]:
        wrong.append(f"without cell {taken.name}, these were made again: {', '.join(changed) or 'nothing'}")
    wrong += [f"{name} came out differently" for name, data in figures(root).items() if shown.get(name) != data]
    print(f"{len(before)} records and tables in {seconds:.0f} s, one of them again in {again:.0f} s")
    return wrong


def _arm(result: Result) -> str:
    return result.cell.arm


def main(arguments: list[str]) -> int:
    """Check, in a folder of its own unless one is given; 1 if something is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        wrong = check(Path(arguments[0] if arguments else folder))
    for line in wrong:
        print(f"WRONG: {line}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
