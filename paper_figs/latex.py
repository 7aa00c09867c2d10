"""Tidy rows as a LaTeX table (booktabs), with the label of every number in a column of its own."""

from __future__ import annotations

import re

import pandas as pd

from paper_figs.tidy import table_of

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "×": r"$\times$", "÷": r"$\div$", "−": "--", "–": "--",
    "τ": r"$\tau$", "Δ": r"$\Delta$", "→": r"$\to$", "≥": r"$\geq$", "≤": r"$\leq$", "±": r"$\pm$", "…": r"\ldots{}",
    "§": r"\S{}", "⁺": "$^+$", "≠": r"$\neq$", "∅": r"$\emptyset$", "‖": r"$\|$", "∩": r"$\cap$", "·": r"$\cdot$",
}  # fmt: skip


def latex_table(frame: pd.DataFrame, name: str, caption: str) -> str:
    """A table environment with the caption and \\label{tab:name}; needs booktabs."""
    table = table_of(frame)
    numbers = {"value", "paper", "n"}
    kinds = "".join("r" if column in numbers else "l" for column in table.columns)
    lines = [
        r"\begin{table}",
        r"\centering\small",
        rf"\begin{{tabular}}{{{kinds}}}",
        r"\toprule",
        " & ".join(map(escape, table.columns)) + r" \\",
        r"\midrule",
        *(" & ".join(escape(str(cell)) for cell in row) + r" \\" for row in table.itertuples(index=False)),
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{{escape(' '.join(caption.splitlines()))}}}",
        rf"\label{{tab:{name}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Text for LaTeX."""
    return re.sub("|".join(map(re.escape, _SPECIAL)), lambda match: _SPECIAL[match[0]], text)
