"""The train/test split of the field: sort by name, hold out every n-th view."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError


def split_views(view_count: int, test_every: int, scene: str) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Training and test indices, int32 and ascending, of `view_count` views in name order.

    The index counts loaded views, as in 3DGS: a view left out by skip_missing shifts those after it.
    Raises InputError when no view is left for training.
    """
    every = np.arange(view_count, dtype=np.int32)
    held_out = every % test_every == 0 if test_every else np.zeros(view_count, bool)
    if held_out.all():
        raise InputError(
            f"Scene {scene}: test_every={test_every} holds out all {view_count} view(s), so none is left for "
            "training. Use test_every=0 to train on all views, or a larger distance between test views."
        )
    return every[~held_out], every[held_out]
