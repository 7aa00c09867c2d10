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


PAGE_LINES, CAPTION_LINE = 42, 75  # lines of \small that fit a page, characters of a line of the caption
# Most characters of a row, and the size in which they fit a text block of 165 mm.
SIZES = ((70, r"\small"), (95, r"\footnotesize\setlength{\tabcolsep}{3pt}"))
SMALLEST = r"\scriptsize\setlength{\tabcolsep}{2pt}"


def latex_table(frame: pd.DataFrame, name: str, caption: str, title: str = "") -> str:
    """A table with the caption and \\label{tab:name}: a float, or a longtable where a page does not hold it.

    title: for the list of tables, in place of the caption
    """
    table = table_of(frame)
    numbers = {"value", "paper", "n"}
    kinds = "".join("r" if column in numbers else "l" for column in table.columns)
    head = [r"\toprule", " & ".join(map(escape, table.columns)) + r" \\", r"\midrule"]
    body = [" & ".join(escape(str(cell)) for cell in row) + r" \\" for row in table.itertuples(index=False)]
    text = rf"\caption{f'[{escape(title)}]' if title else ''}{{{escape(' '.join(caption.splitlines()))}}}"
    long = len(body) + len(caption) / CAPTION_LINE > PAGE_LINES
    wide = sum(table[column].str.len().max() for column in table.columns)
    size = next((size for most, size in SIZES if wide <= most), SMALLEST)
    lines = (_long if long else _float)(kinds, size, head, body, text, rf"\label{{tab:{name}}}")
    return "\n".join(lines) + "\n"


def _float(kinds: str, size: str, head: list[str], body: list[str], caption: str, label: str) -> list[str]:
    return [
        r"% Needs \usepackage{booktabs}.",
        r"\begin{table}",
        rf"\centering{size}",
        rf"\begin{{tabular}}{{{kinds}}}",
        *head,
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        caption,
        label,
        r"\end{table}",
    ]


def _long(kinds: str, size: str, head: list[str], body: list[str], caption: str, label: str) -> list[str]:
    return [
        r"% Needs \usepackage{booktabs,longtable}. It breaks over pages, in one column only.",
        r"\begingroup",
        rf"{size}\setlength{{\LTcapwidth}}{{\textwidth}}",
        rf"\begin{{longtable}}{{{kinds}}}",
        rf"{caption}{label} \\",
        *head,
        r"\endfirsthead",
        *head,
        r"\endhead",
        r"\bottomrule",
        r"\endfoot",
        *body,
        r"\end{longtable}",
        r"\endgroup",
    ]


def escape(text: str) -> str:
    """Text for LaTeX."""
    return re.sub("|".join(map(re.escape, _SPECIAL)), lambda match: _SPECIAL[match[0]], text)
