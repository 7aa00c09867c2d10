"""One rank as a task of srun: python -m slurm.rank SPEC.json, its number from $SLURM_PROCID."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Run the rank that this task is; its exit code."""
    path = Path(arguments[0])
    if not path.exists():
        from slurm.ranks import missing_folder

        print(missing_folder(path), file=sys.stderr)
        return 1
    from harness.run.rank import show_stacks
    from harness.run.telling import open_channel
    from harness.run.worker import main as run_rank

    show_stacks()
    open_channel()
    return run_rank([str(path), os.environ["SLURM_PROCID"]])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
