"""Public mutants: the exactness tests pass on the runtime as it is and fail with each bug seeded into it.

    python -m tests.mutants

Exit code 1 if a mutant survives, or if the tests fail without one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass

from tests.odin.seeded_bugs import PUBLIC

TESTS, CHOSEN = "tests/odin/test_exactness.py", "bit_for_bit or skip_one_update or adversarial"
# A run ends at its first failure. This mutant fails others as well, which come first, and is what that test is for.
ALONE = {"inflation off": "adversarial"}
assert set(ALONE) <= set(PUBLIC)
PYTEST = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "tests.odin.mutant_plugin", "--hypothesis-profile=mutants"]
PASSED, FAILED = 0, 1  # pytest's exit codes; every other one means that nothing was tested


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run of the tests. `mutant` is empty for the runtime as it is."""

    mutant: str
    code: int
    seconds: float
    output: str

    @property
    def good(self) -> bool:
        """The runtime as it is passes, a mutant fails."""
        return self.code == (FAILED if self.mutant else PASSED)

    @property
    def verdict(self) -> str:
        """One word for the table."""
        if self.code not in (PASSED, FAILED):
            return f"broken (pytest exit code {self.code})"
        passed, failed = ("survived", "killed") if self.mutant else ("passed", "failed")
        return passed if self.code == PASSED else failed

    @property
    def killer(self) -> str:
        """The test that failed first."""
        found = re.search(r"^FAILED \S+::(\S+)", self.output, re.MULTILINE)
        return found.group(1) if found else ""


def attempt(mutant: str) -> Trial:
    """Run the tests once."""
    start = time.monotonic()
    command = [*PYTEST, TESTS, "-k", ALONE.get(mutant, CHOSEN)]
    done = subprocess.run(
        command, env={**os.environ, "ODIN_MUTANT": mutant}, capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - start
    return Trial(mutant=mutant, code=done.returncode, seconds=seconds, output=done.stdout + done.stderr)


def main() -> int:
    """Print the table."""
    print(f"{'mutant':<22}{'verdict':<12}{'s':>5}  by")
    trials = []
    for mutant in ("", *PUBLIC):
        trial = attempt(mutant)
        trials.append(trial)
        print(f"{mutant or '(none)':<22}{trial.verdict:<12}{trial.seconds:>5.1f}  {trial.killer}", flush=True)
    wrong = [trial for trial in trials if not trial.good]
    for trial in wrong:
        print(f"\n{trial.mutant or '(none)'}: {trial.verdict}\n{trial.output}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
