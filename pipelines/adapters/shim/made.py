"""Making a module that no file has."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def made(name: str, **contents: Any) -> ModuleType:
    """A module of this name with these contents. It has a spec, because some libraries ask for that of what is
    imported."""
    module = ModuleType(name, "A stand-in; see pipelines.adapters.shim.")
    module.__spec__ = ModuleSpec(name, None)
    vars(module).update(contents)
    return module
