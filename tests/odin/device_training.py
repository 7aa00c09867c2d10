"""Training on a device in miniature: the program points of `quality` over the device's slot, rows and transport.

Legend: A → B steps; W rows written in a step, of which `urgent` are read in the next.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import torch

from odin.comm.transport import Handle
from odin.device.rows import DeviceMoments, DeviceRows, apply_gradient, apply_zero
from odin.device.slot import DeviceSlot
from odin.device.upload import to_device
from odin.layout import ColumnGroup, ColumnLayout
from odin.phases import Phase
from odin.rows import Update
from odin.segments import Block, SegmentSpec
from odin.slot import Segment
from tests.odin.standins import Rank

LAYOUT = ColumnLayout(
    groups=(ColumnGroup(name="geometry", first=0, last=3), ColumnGroup(name="colour", first=3, last=7))
)
N = 24
LR = np.linspace(1e-3, 5e-2, 7)


def written(steps: int, seed: int) -> np.ndarray:
    """Which rows each step reads and writes on any rank; bool [S, N]."""
    return np.random.default_rng(seed).random((steps, N)) < 0.5


class DeviceTraining:
    """One rank. `overlap` waits for rows at the points of `quality`, else for everything at once."""

    def __init__(self, rank: Rank, scopes: np.ndarray, *, overlap: bool) -> None:
        self.rank, self.scopes, self.overlap = rank, scopes, overlap
        device = rank.streams.device
        start = np.random.default_rng(1).normal(size=(N, 7)).astype(np.float32)
        p = torch.from_numpy(start).to(device)
        self.state = DeviceMoments(p=p, m=torch.zeros_like(p), v=torch.zeros_like(p))
        self.slots = [DeviceSlot(N, LAYOUT, device) for _ in range(2)]
        self.pending: deque[tuple[Update, DeviceSlot, deque[tuple[Segment, Handle, torch.Tensor]]]] = deque()

    def ids(self, mask: np.ndarray) -> torch.Tensor:
        return to_device(np.flatnonzero(mask), self.rank.streams.device, torch.int64)

    def step(self, t: int) -> None:
        """Backward of both groups, launches, and the points at which the predecessor is published."""
        scope = self.scopes[t]
        following = self.scopes[t + 1] if t + 1 < len(self.scopes) else np.ones(N, bool)
        urgent, slot = scope & following, self.slots[t % 2]
        rows = {"urgent": self.ids(urgent)}
        masks = {"urgent": urgent, "rest": ~urgent}
        blocks = {k: (Block(rows=np.flatnonzero(m).astype(np.int32), groups=(0, 1)),) for k, m in masks.items()}
        slot.partition([SegmentSpec(name=name, blocks=held) for name, held in blocks.items()])
        self.publish("urgent")
        self.backward(slot, self.ids(scope))
        self.publish("rest")
        update = Update(t=t + 1, lr=LR, scale=0.5)
        self.launch(update, slot, {"urgent": rows["urgent"], "rest": self.ids(scope & ~urgent)})
        with self.rank.keeper.phase(Phase.ZERO_STEP):
            apply_zero(self.state, update, self.rows(self.ids(~scope)))
        if not self.overlap:
            self.publish("urgent")
            self.publish("rest")
        self.rank.keeper.now()

    def backward(self, slot: DeviceSlot, ids: torch.Tensor) -> None:
        with self.rank.keeper.phase(Phase.COLOUR_BACKWARD, rows=len(ids)):
            values = self.state.p.index_select(0, ids)
            slot.add(1, ids, torch.sin(3 * values[:, 3:] + self.rank.rank))
            slot.add(0, ids, torch.cos(2 * values[:, :3] - self.rank.rank))

    def launch(self, update: Update, slot: DeviceSlot, publishes: dict[str, torch.Tensor]) -> None:
        launched: deque[tuple[Segment, Handle, torch.Tensor]] = deque()
        for segment in slot.segments:
            if segment.start < segment.stop:
                handle = self.rank.transport.all_reduce(slot.slice(segment), self.rank.keeper.join())
                launched.append((segment, handle, publishes[segment.name]))
        self.pending.append((update, slot, launched))

    def publish(self, name: str) -> None:
        """Publish a segment of the oldest pending step, if that is the next one."""
        if not self.pending:
            return
        update, slot, launched = self.pending[0]
        if launched and launched[0][0].name == name:
            segment, handle, ids = launched.popleft()
            self.rank.keeper.wait(handle, segment.name)
            with self.rank.keeper.phase(Phase.UPDATE, rows=len(ids)):
                apply_gradient(self.state, update, self.rows(ids), slot.values, slot.offsets)
        if not launched:
            self.pending.popleft()

    def rows(self, ids: torch.Tensor) -> DeviceRows:
        return DeviceRows(ids=ids, layout=LAYOUT, lo=0, hi=2)

    def run(self) -> bytes:
        """Train all steps; the final state's bits."""
        for t in range(len(self.scopes)):
            self.rank.keeper.step = t
            self.step(t)
        self.publish("urgent")
        self.publish("rest")
        return b"".join(t.cpu().numpy().tobytes() for t in (self.state.p, self.state.m, self.state.v))
