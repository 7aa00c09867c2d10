"""Torch twin of the row kernel for tensors on any device: Adam on any subset of rows and columns (D§5).

Same operations in the same order as `odin.rows`, one torch operation per rounding: fused ones (lerp, addcmul, addcdiv)
round differently, and nvcc may contract a product and a sum only inside one kernel. So a row gets the same bits
however rows and groups are split, and the bits of the Numba kernel wherever division and root are correctly rounded.
Nothing here makes the host wait for the device.

Legend: N rows, D columns, G groups, R rows of one call, C columns of groups lo…hi-1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from odin.device.upload import to_device
from odin.layout import ColumnLayout
from odin.rows import ADAM, TINY, AdamConstants, Update

# Bounds the temporaries: about ten of [R, C] float32 are alive at once, 62 MB each for 59 columns.
CHUNK_ROWS = 1 << 18

_TINY = float(TINY)


@dataclass(frozen=True, kw_only=True)
class DeviceMoments:
    """Parameters and Adam moments, each float32 [N, D] on one device."""

    p: torch.Tensor
    m: torch.Tensor
    v: torch.Tensor

    def gather(self, ids: torch.Tensor, columns: slice) -> DeviceMoments:
        """Copies of some rows' columns, each [R, C]."""
        p, m, v = (t[:, columns].index_select(0, ids) for t in (self.p, self.m, self.v))
        return DeviceMoments(p=p, m=m, v=v)

    def scatter(self, ids: torch.Tensor, columns: slice, part: DeviceMoments) -> None:
        """Write such copies back."""
        for whole, values in ((self.p, part.p), (self.m, part.m), (self.v, part.v)):
            whole[:, columns].index_copy_(0, ids, values)


@dataclass(frozen=True, kw_only=True)
class DeviceRows:
    """Which part of the table an update touches: `ids` (int64 [R] on the device, each at most once), groups lo…hi-1."""

    ids: torch.Tensor
    layout: ColumnLayout
    lo: int
    hi: int

    @property
    def columns(self) -> slice:
        """The columns of the groups."""
        return slice(self.layout.groups[self.lo].first, self.layout.groups[self.hi - 1].last)

    def chunks(self) -> Iterator[torch.Tensor]:
        """The ids in pieces of at most CHUNK_ROWS."""
        yield from split(self.ids)


def split(ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Rows in pieces of at most CHUNK_ROWS."""
    return ids.split(CHUNK_ROWS)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """An update's constants on a device. `root` is a tensor because torch divides by a host scalar on CUDA as a
    product with its reciprocal, which rounds differently.

    keep1, b2, keep2, eps: 1-β1, β2, 1-β2 and ε, each a float32 number
    """

    scale: float
    sizes: torch.Tensor  # [C]
    root: torch.Tensor  # []
    keep1: float
    b2: float
    keep2: float
    eps: float

    @classmethod
    def of(cls, update: Update, rows: DeviceRows) -> Terms:
        """Of the rows' columns."""
        sizes = update.step_sizes()[rows.columns]
        return cls.made(update.scale, sizes, update.denominator_scale(), rows.ids.device, update.adam)

    @classmethod
    def made(
        cls,
        scale: float,
        sizes: NDArray[np.float32],
        root: np.float32,
        device: torch.device,
        constants: AdamConstants = ADAM,
    ) -> Terms:
        """From step sizes [C] and √(1-β2ᵗ) on the host, which does not wait."""
        values = to_device(np.append(sizes, root), device, torch.float32)
        keep1, b2, keep2, eps = map(float, constants.kernel())
        return cls(
            scale=float(np.float32(scale)),
            sizes=values[:-1],
            root=values[-1],
            keep1=keep1,
            b2=b2,
            keep2=keep2,
            eps=eps,
        )

    def step(self, m: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """How far Adam moves a parameter with these moments."""
        return (m / _sqrt(v).div_(self.root).add_(self.eps)).mul_(self.sizes)


def _sqrt(x: torch.Tensor) -> torch.Tensor:
    # torch's float32 root is not correctly rounded on the CPU; there float64 and back is. On CUDA it is what nvcc
    # makes of sqrtf without fast-math flags, which is.
    return x.double().sqrt_().float() if x.device.type == "cpu" else x.sqrt()


def _flush(x: torch.Tensor, magnitude: torch.Tensor) -> torch.Tensor:
    return torch.where(magnitude < _TINY, 0.0, x)


def _gather(gradient: torch.Tensor, offsets: torch.Tensor, rows: DeviceRows, ids: torch.Tensor) -> torch.Tensor:
    """Gradient of the rows' groups side by side, a fresh [R, C]."""
    pieces = []
    for group in range(rows.lo, rows.hi):
        width = rows.layout.groups[group].width
        index = elements(offsets[group], ids, width)
        pieces.append(gradient.index_select(0, index).view(len(ids), width))
    return torch.cat(pieces, dim=1)


def elements(offsets: torch.Tensor, ids: torch.Tensor, width: int) -> torch.Tensor:
    """Positions in a slot of `width` elements of each row, row by row; int64 [R·width].

    offsets: int64 [N], position of each row's first element
    """
    first = offsets.index_select(0, ids)
    return (first[:, None] + torch.arange(width, device=ids.device)).view(-1)


def _where(mask: torch.Tensor, new: DeviceMoments, old: DeviceMoments) -> DeviceMoments:
    p, m, v = (torch.where(mask, a, b) for a, b in ((new.p, old.p), (new.m, old.m), (new.v, old.v)))
    return DeviceMoments(p=p, m=m, v=v)


def adam(part: DeviceMoments, g: torch.Tensor, terms: Terms) -> DeviceMoments:
    """Rows [R, C] after a step by their gradients `g`."""
    m = (g - part.m).mul_(terms.keep1).add_(part.m)
    v = (part.v * terms.b2).add_((g * g).mul_(terms.keep2))
    m, v = _flush(m, m.abs()), _flush(v, v)
    return DeviceMoments(p=part.p - terms.step(m, v), m=m, v=v)


def apply_gradient(
    state: DeviceMoments, update: Update, rows: DeviceRows, gradient: torch.Tensor, offsets: torch.Tensor
) -> None:
    """Adam step of `rows`, in place.

    gradient: flat float32 buffer, summed over ranks
    offsets:  int64 [G, N], position in `gradient` of a row's first column of each group

    Selective Adam leaves rows that no view saw as they are; leaving them out instead would need their number.
    """
    terms = Terms.of(update, rows)
    for ids in rows.chunks():
        g = _gather(gradient, offsets, rows, ids).mul_(terms.scale)
        old = state.gather(ids, rows.columns)
        new = adam(old, g, terms)
        if update.visible is not None:
            seen = gradient.index_select(0, offsets[update.visible].index_select(0, ids)) != 0
            new = _where(seen[:, None], new, old)
        state.scatter(ids, rows.columns, new)


def apply_zero(state: DeviceMoments, update: Update, rows: DeviceRows) -> None:
    """Zero-gradient Adam step of `rows`, in place: momentum only. Selective Adam takes none."""
    if update.visible is not None:
        return
    terms = Terms.of(update, rows)
    for ids in rows.chunks():
        part = state.gather(ids, rows.columns)
        state.scatter(ids, rows.columns, adam(part, torch.zeros_like(part.p), terms))


def apply_correction(
    state: DeviceMoments, update: Update, rows: DeviceRows, gradient: torch.Tensor, offsets: torch.Tensor
) -> torch.Tensor:
    """Turn an already applied zero-gradient step into the real one (see `odin.rows.apply_correction`).

    Returns the number of rows touched as an int64 [] tensor on the device. Rows with a zero gradient keep their bits;
    leaving them out of the computation instead would need their number on the host. Selective Adam took no step, so
    this is the whole update.
    """
    if update.visible is not None:
        apply_gradient(state, update, rows, gradient, offsets)
        return torch.full((), len(rows.ids), dtype=torch.int64, device=rows.ids.device)
    terms = Terms.of(update, rows)
    count = torch.zeros((), dtype=torch.int64, device=rows.ids.device)
    for ids in rows.chunks():
        part = state.gather(ids, rows.columns)
        gradient_of = _gather(gradient, offsets, rows, ids)
        g = gradient_of * terms.scale
        state.scatter(ids, rows.columns, corrected(part, gradient_of, g, g * g, terms))
        count += (gradient_of != 0).any(dim=1).sum()
    return count


def apply_advance(
    state: DeviceMoments,
    before: Update,
    update: Update,
    rows: DeviceRows,
    gradient: torch.Tensor,
    offsets: torch.Tensor,
) -> None:
    """`apply_correction` of `before`, then `apply_zero` of `update`, bit for bit; rows are gathered and written once.

    See `odin.rows.apply_advance`.
    """
    if before.visible is not None:
        apply_gradient(state, before, rows, gradient, offsets)
        return
    corrects, own = Terms.of(before, rows), Terms.of(update, rows)
    for ids in rows.chunks():
        raw = _gather(gradient, offsets, rows, ids)
        g = raw * corrects.scale
        part = corrected(state.gather(ids, rows.columns), raw, g, g * g, corrects)
        state.scatter(ids, rows.columns, adam(part, torch.zeros_like(part.p), own))


def corrected(
    part: DeviceMoments, gradient: torch.Tensor, change: torch.Tensor, squares: torch.Tensor, terms: Terms
) -> DeviceMoments:
    """Rows [R, C] after a correction; those without any `gradient` as they were. change, squares: by how much what the
    step was taken with, and its square, fall short."""
    m = (change * terms.keep1).add_(part.m)
    v = (squares * terms.keep2).add_(part.v)
    m, v = _flush(m, m.abs()), _flush(v, v)
    p = (terms.step(part.m, part.v) - terms.step(m, v)).add_(part.p)
    return _where((gradient != 0).any(dim=1, keepdim=True), DeviceMoments(p=p, m=m, v=v), part)
