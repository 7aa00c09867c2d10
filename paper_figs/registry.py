"""All exhibits, in the order of the report."""

from __future__ import annotations

from collections.abc import Sequence

from harness.config.checks import nearest
from odin.errors import InputError
from paper_figs import (
    fig01,
    fig03,
    fig05,
    fig06,
    fig07,
    fig08,
    fig09,
    fig10,
    fig11,
    fig12,
    fig13,
    fig14,
    fig15,
    fig16,
    fig17,
    fig18,
    fig19,
    headline,
    review1,
    review2,
    review3,
    table2,
    table3,
)
from paper_figs.exhibit import Exhibit

EXHIBITS: tuple[Exhibit, ...] = (
    headline, fig01, fig03, fig05, fig06, fig07, fig08, fig09, fig10, fig11, fig12, fig13, fig14, fig15, table2, table3,
    fig16, fig17, fig18, fig19, review1, review2, review3,
)  # fmt: skip


def exhibits(names: Sequence[str] = ()) -> tuple[Exhibit, ...]:
    """Those of these names, or all. Raises InputError that names the nearest for an unknown one."""
    known = {exhibit.name: exhibit for exhibit in EXHIBITS}
    for name in names:
        if name not in known:
            raise InputError(
                f"There is no exhibit {name!r}; the nearest one is {nearest(name, list(known))}. "
                f"Exhibits: {', '.join(known)}."
            )
    return tuple(known[name] for name in names) if names else EXHIBITS
