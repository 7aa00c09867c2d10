"""Random draws of a fork's structural code: the same on every rank, whatever was drawn before (D§5).

Forks draw from the global generators of Python, numpy and torch. Here these are seeded by (seed, version) for the
length of a block and are put back afterwards.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

# The generators, and the names that stand-ins replace for a moment, belong to the process, not to a rank.
PROCESS = threading.RLock()


@contextmanager
def drawn_from(seed: int, version: int, owner: int = 0) -> Iterator[None]:
    """Inside, everything is drawn from (seed, version), and the owner where rows are sharded. One rank of a process at
    a time."""
    key = np.random.SeedSequence([seed, 0xF0, version, *([owner] if owner else [])]).generate_state(1)
    with PROCESS:
        before = random.getstate(), np.random.get_state()  # noqa: NPY002 (the generator that forks draw from)
        devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []  # other ranks have their own
        with torch.random.fork_rng(devices=devices):
            random.seed(int(key[0]))
            np.random.seed(int(key[0]))  # noqa: NPY002 (see above)
            torch.manual_seed(int(key[0]))
            try:
                yield
            finally:
                random.setstate(before[0])
                np.random.set_state(before[1])  # noqa: NPY002 (see above)
