"""`odin-bench figures`, attached to the command line by an entry point."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.exits import ends_in_exit
from odin.errors import InputError

figures_app = typer.Typer(add_completion=False, rich_markup_mode=None)


@figures_app.command()
@ends_in_exit
def figures(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[EXHIBIT…] [out=FOLDER]", help="Exhibits; all by default.")
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Print the exhibits and what they need.")] = False,
) -> int:
    """Make the paper's tables and figures from recorded cells, and say what is missing for the others.

    odin-bench figures out=runs/smoke; odin-bench figures fig8 table3 out=runs/smoke. Writes PDF, PNG, caption, CSV and
    LaTeX below FOLDER/figures, and the numbers of all exhibits as FOLDER/summary.csv. The report is made from them:
    odin-bench report FOLDER.
    """
    from paper_figs.registry import exhibits

    names, out = _split(words or [])
    chosen = exhibits(names)
    if listing:
        for exhibit in chosen:
            print(f"{exhibit.name:<9} {exhibit.title} ({', '.join(n.text() for n in exhibit.needs) or 'any study'})")
        return 0
    from paper_figs.cells import Cells
    from paper_figs.make import make_all

    for shown in make_all(chosen, Cells(out), whole=not names):
        if shown.missing:
            print(f"{shown.name:<9} {shown.missing}. Make it with: {shown.command}")
        else:
            print(f"{shown.name:<9} {out / 'figures' / (shown.picture or f'{shown.name}.csv')}")
    return 0


def _split(words: list[str]) -> tuple[list[str], Path]:
    names, out = [], Path("runs/smoke")
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            names.append(word)
        elif key == "out" and value:
            out = Path(value)
        else:
            raise InputError(f"figures takes names of exhibits and out=FOLDER, not {word!r}.")
    return names, out
