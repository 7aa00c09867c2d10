"""Whether studies can be submitted from here: Slurm's commands, a controller that answers, accounting, submitit."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess

from harness.doctor.finding import Finding, ok, warn

NEEDED = ("sbatch", "srun", "scontrol")
USEFUL = ("squeue", "scancel", "sinfo", "sacct")
INSTALL = "pip install -e '.[slurm]'"
ANSWER_S = 20


def slurm() -> Finding:
    """Which commands there are, and whether a controller answers them."""
    present = [name for name in (*NEEDED, *USEFUL) if shutil.which(name)]
    absent = [name for name in NEEDED if name not in present]
    if not present:
        return ok("slurm", "not installed: studies run on this machine (odin-bench run)")
    if absent:
        return warn("slurm", f"{', '.join(absent)} absent (there is {', '.join(present)}): nothing can be submitted")
    controller = _answer("scontrol", "ping")
    if controller is None or " is UP" not in controller:
        said = " ".join((controller or "").split()) or "no controller answers"
        return warn("slurm", f"{', '.join(present)}; {said}", "export SLURM_CONF=FILE  # or submit from a login node")
    # Asking for a job that never was: only whether there is an accounting to ask.
    accounted = "sacct" in present and _answer("sacct", "-Xn", "-j", "1") is not None
    states = "states from sacct" if accounted else "no accounting: states from scontrol, for as long as it keeps jobs"
    found = f"{', '.join(present)}; {controller.splitlines()[0].strip()}; {states}"
    if importlib.util.find_spec("submitit") is None:
        return warn("slurm", f"{found}; submission needs submitit", INSTALL)
    return ok("slurm", found)


def _answer(*command: str) -> str | None:
    """What a command prints; None where it fails or does not come back."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
