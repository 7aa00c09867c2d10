"""A stand-in for Slurm that runs jobs here, one after the other, and whose accounting is switched off."""

from __future__ import annotations

import sys
from pathlib import Path

SBATCH = """#!{python} -ES
import os, pathlib, re, subprocess, sys, time

root, script = pathlib.Path({root!r}), sys.argv[-1]
text = open(script).read()
(root / "ended").mkdir(exist_ok=True)
number = len(list(root.glob("job-*"))) + 1
(root / f"job-{{number}}").touch()
array = re.search(r"#SBATCH --array=(\\d+)-(\\d+)", text)
after = re.search(r"--dependency=afterany:([\\d:]+)", text)
if os.fork():
    print(f"Submitted batch job {{number}}", flush=True)
    os._exit(0)
os.setsid()
nothing = os.open(os.devnull, os.O_RDWR)
for stream in (0, 1, 2):
    os.dup2(nothing, stream)
for other in after[1].split(":") if after else []:
    while not (root / "ended" / other).exists():
        time.sleep(0.1)
for task in range(int(array[1]), int(array[2]) + 1) if array else [None]:
    own = {{"SLURM_JOB_ID": f"{{number}}{{'' if task is None else task}}", "SLURM_JOB_NUM_NODES": "1",
           "SLURM_NTASKS": "1", "SLURM_JOB_NODELIST": "here", "SLURM_NODEID": "0", "SLURM_PROCID": "0",
           "SLURM_LOCALID": "0"}}
    if task is not None:
        own |= {{"SLURM_ARRAY_JOB_ID": str(number), "SLURM_ARRAY_TASK_ID": str(task)}}
    subprocess.run(["bash", script], env=os.environ | own)
(root / "ended" / str(number)).touch()
"""
# Options of srun come before the interpreter that it is to start.
SRUN = """#!/bin/sh
while [ $# -gt 0 ]; do case "$1" in */python*) break ;; esac; shift; done
exec "$@" >> {root}/log-$SLURM_JOB_ID 2>&1
"""
OFF = """#!/bin/sh
echo "$(basename $0)" >> {root}/asked
echo "Slurm accounting storage is disabled" >&2
exit 1
"""


def install(root: Path) -> Path:
    """The folder of its commands, for the front of PATH. `root/asked` has a line for every refused question."""
    commands = root / "bin"
    commands.mkdir(parents=True)
    texts = {"sbatch": SBATCH, "srun": SRUN, **dict.fromkeys(("sacct", "squeue", "scontrol"), OFF)}
    for name, text in texts.items():
        path = commands / name
        path.write_text(text.format(python=sys.executable, root=str(root)))
        path.chmod(0o755)
    return commands
