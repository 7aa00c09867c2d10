"""The doctor's table, and the exit code it stands for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.text import Text

from harness.doctor.finding import Finding, State

COLOURS = {State.OK: "green", State.WARN: "yellow", State.MISSING: "bold red"}


def print_findings(findings: Sequence[Finding], *, stream: TextIO | None = None) -> int:
    """Print one line per finding with its repair below it; 1 if anything required is missing, else 0.

    A repair stands on a line of its own, unwrapped, so that it can be copied.
    """
    console = Console(file=stream or sys.stdout, highlight=False, soft_wrap=True)
    width = max((len(finding.name) for finding in findings), default=0)
    for finding in findings:
        state = Text(f"{finding.state.value:<8}", style=COLOURS[finding.state])
        console.print(state + Text(f"{finding.name:<{width}}  {finding.found}"))
        if finding.fix:
            console.print(Text(f"{'':<8}{'':<{width}}  fix: {finding.fix}"))
    absent = [finding.name for finding in findings if finding.state is State.MISSING]
    console.print(Text(_verdict(absent)))
    return 1 if absent else 0


def _verdict(absent: Sequence[str]) -> str:
    if absent:
        return f"\nThis machine cannot run yet: {', '.join(absent)}. Run the fix lines, then doctor again."
    return "\nThis machine can run: odin-bench reproduce headline"
