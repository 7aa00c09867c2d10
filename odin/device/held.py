"""A held column group on a device: the sums and the bits of `odin.held.HeldGroup`, in torch operations.

Legend: N rows, C columns of the group, R rows of one call.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from odin.device.rows import DeviceMoments, Terms, adam, corrected, elements, split
from odin.held import Floats, Held
from odin.layout import ColumnLayout
from odin.rows import Update


@dataclass(frozen=True, kw_only=True)
class DeviceReduced:
    """A reduced gradient on the device: flat float32 values, and int64 [N] offsets of the group's columns."""

    values: torch.Tensor
    offsets: torch.Tensor

    def of(self, ids: torch.Tensor, columns: int) -> torch.Tensor:
        """Gradient of rows `ids`, float32 [R, C]."""
        return self.values.index_select(0, elements(self.offsets, ids, columns)).view(len(ids), columns)


class DeviceHeldGroup(Held):
    """A held group on a device; rows are int64 [R] there, and the host does not wait."""

    sums: torch.Tensor

    def __init__(self, layout: ColumnLayout, every: int, device: torch.device) -> None:
        self._device = device
        super().__init__(layout, every)

    def clear(self, rows: int) -> None:
        """See Held."""
        self.sums = torch.zeros((rows, self.columns), dtype=torch.float32, device=self._device)

    def host_sums(self) -> Floats:
        """See Held."""
        sums: Floats = self.sums.cpu().numpy()
        return sums

    def restore(self, t: int, sums: Floats) -> None:
        """See Held."""
        self.t, self.sums = t, torch.from_numpy(sums.copy()).to(self._device)

    def gradient(self, state: DeviceMoments, update: Update, ids: torch.Tensor, reduced: DeviceReduced) -> None:
        """See Held."""
        assert update.held is not None
        terms = self._terms(update) if update.held.applies else None
        for rows in split(ids):
            total = self.sums.index_select(0, rows).add_(reduced.of(rows, self.columns))
            if terms is not None:
                self._apply(state, terms, rows, total)
            else:
                self.sums.index_copy_(0, rows, total)

    def zero(self, state: DeviceMoments, update: Update, ids: torch.Tensor) -> None:
        """See Held."""
        assert update.held is not None
        if update.held.applies:
            terms = self._terms(update)
            for rows in split(ids):
                self._apply(state, terms, rows, self.sums.index_select(0, rows))

    def correct(self, state: DeviceMoments, update: Update, ids: torch.Tensor, reduced: DeviceReduced) -> None:
        """See Held."""
        assert update.held is not None
        if not update.held.applies:
            self.gradient(state, update, ids, reduced)
            return
        terms = self._terms(update)
        for rows in split(ids):
            held, gradient = self.sums.index_select(0, rows), reduced.of(rows, self.columns)
            before, after = held * terms.scale, (held + gradient).mul_(terms.scale)
            change, squares = after - before, (after * after).sub_(before * before)
            state.scatter(rows, self._slice, corrected(self._part(state, rows), gradient, change, squares, terms))

    def _apply(self, state: DeviceMoments, terms: Terms, rows: torch.Tensor, total: torch.Tensor) -> None:
        state.scatter(rows, self._slice, adam(self._part(state, rows), total.mul_(terms.scale), terms))

    def _part(self, state: DeviceMoments, rows: torch.Tensor) -> DeviceMoments:
        return state.gather(rows, self._slice)

    @property
    def _slice(self) -> slice:
        return slice(self.first, self.first + self.columns)

    def _terms(self, update: Update) -> Terms:
        assert update.held is not None
        return Terms.made(update.scale, self.sizes(update), update.held.denominator_scale(), self._device)
