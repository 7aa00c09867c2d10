"""The time that torch takes: DDP's and autograd's bookkeeping and copies, as a phase of the timeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from odin.keeper import Keeper, Work
from odin.phases import Phase


class Inside:
    """`Phase.DDP`, open while control is in torch and closed while torch has called us, so that nothing of a view is
    unpriced and nothing counts twice. Its work is the number of elements copied (as `entries`)."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._stretch = ExitStack()
        self._work = Work()

    @contextmanager
    def torch(self) -> Iterator[None]:
        """Around what is handed to torch."""
        self._enter()
        yield
        self._stretch.close()

    @contextmanager
    def ours(self) -> Iterator[None]:
        """Around what torch calls and what is not its own work."""
        self._stretch.close()
        yield
        self._enter()

    def copied(self, elements: int) -> None:
        """Note elements zeroed, copied or added in the current stretch."""
        self._work.entries += elements

    def _enter(self) -> None:
        self._work = self._stretch.enter_context(self._keeper.phase(Phase.DDP))
