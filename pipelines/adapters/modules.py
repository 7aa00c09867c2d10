"""Importing a fork: its root on the path, its modules by name, one fork per process.

All forks own the top-level packages `scene`, `utils`, `arguments` and `gaussian_renderer`, and four different
extensions are called `diff_gaussian_rasterization`, so a second one in a process would get the first one's code.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

from odin.errors import InputError, RunError
from pipelines.adapters.draws import PROCESS
from pipelines.adapters.pins import Checkout

_opened: list[Fork] = []  # the process's one


class Fork:
    """A fork whose modules can be imported. `stand_ins`: its extensions are ours (`shim`), on the CPU."""

    def __init__(self, checkout: Checkout, *, stand_ins: bool) -> None:
        self.checkout, self.pin, self.stand_ins = checkout, checkout.pin, stand_ins
        root = str(checkout.folder.resolve())
        if stand_ins:
            from pipelines.adapters.shim import install

            install(self.pin)
        sys.path.insert(0, root)
        self._root, self._modules = root, dict[str, ModuleType]()

    def module(self, name: str) -> ModuleType:
        """One of the fork's modules. Raises InputError where something that it imports is missing."""
        if name not in self._modules:
            self._modules[name] = self._imported(name)
        return self._modules[name]

    def _imported(self, name: str) -> ModuleType:
        with PROCESS, self.device():
            try:
                found = importlib.import_module(name)
            except ImportError as error:
                raise InputError(
                    f"The fork in {self._root} cannot import its {name}: {error}. Build its extensions and install "
                    f"what it needs in this environment, as its README says; `odin-bench doctor` shows what is missing."
                ) from error
        if not str(getattr(found, "__file__", "")).startswith(self._root):
            raise RunError(
                f"The name {name!r} belongs to {found.__file__}, not to the fork in {self._root}: something else of "
                "that name was imported first. Run the fork in a process of its own."
            )
        return found

    def device(self) -> AbstractContextManager[Any]:
        """Inside, the fork's "cuda" is the device that is meant: with stand-ins the CPU."""
        if not self.stand_ins:
            return nullcontext()
        from pipelines.adapters.shim.device import OnCpu

        return OnCpu()

    def options(self, words: Sequence[str], more: Sequence[str] = ()) -> tuple[Any, Any, Any, argparse.Namespace]:
        """The fork's own model, optimization and pipeline parameters for a command line of it, and all of them
        together. more: names of its other groups of parameters"""
        arguments = self.module("arguments")
        parser = argparse.ArgumentParser()
        names = ("ModelParams", "OptimizationParams", "PipelineParams", *more)
        groups = [getattr(arguments, name)(parser) for name in names]
        given = parser.parse_args(list(words))
        model, optimization, pipeline = (group.extract(given) for group in groups[:3])
        return model, optimization, pipeline, given


def open_fork(checkout: Checkout, *, stand_ins: bool) -> Fork:
    """The process's fork. Raises RunError where it has another one already."""
    with PROCESS:
        if _opened:
            fork = _opened[0]
            if (fork.checkout.folder, fork.stand_ins) != (checkout.folder, stand_ins):
                raise RunError(
                    f"This process has already imported the fork {fork.pin.name} ({fork.checkout.folder}); "
                    f"{checkout.pin.name} ({checkout.folder}) needs one of its own, because modules of all forks have "
                    "the same names. Start another process for it."
                )
            return fork
        _opened.append(Fork(checkout, stand_ins=stand_ins))
        return _opened[0]
