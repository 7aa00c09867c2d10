"""Who finds the scopes of a kind of primitive: fused kernels where the table is the host's, torch operations where it
is on a device. Both give the same bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from odin.inflation import Inflation
from pipelines.camera import Camera
from pipelines.render import cull, device_cull
from pipelines.render.surfels import cull as surfel_cull
from pipelines.render.surfels import device_cull as device_surfel_cull


@dataclass(frozen=True, kw_only=True)
class Culls:
    """Conservative scopes of views, as bitmaps of `odin.bitmap`.

    host:   (geometry on the host, cameras packed as float64 [V, 8, 3], inflation) → uint64 [V, words(N)]
    device: (geometry on a device, cameras, inflation) → the same bits as int64 there; the host does not wait
    """

    host: Callable[[NDArray[np.float32], NDArray[np.float64], Inflation], NDArray[np.uint64]]
    device: Callable[[torch.Tensor, Sequence[Camera], Inflation], torch.Tensor]


GAUSSIANS = Culls(host=cull.cull_packed, device=device_cull.cull_packed)
SURFELS = Culls(host=surfel_cull.cull_packed, device=device_surfel_cull.cull_packed)
