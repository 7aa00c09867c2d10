"""Each fork: is it there, at the commit the adapters are for, can its extensions be imported, has it a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence

from harness.doctor.finding import Finding, ok, warn
from pipelines.adapters.pins import HOST_ONLY, UNKNOWN, Checkout, Pin, find_checkout, pins

IMPORT_S = 120
# In a process of its own: an extension built for another torch may end the process that imports it. Prints, per
# module, why it cannot be imported.
_PROBE = """
import importlib, json, sys
import torch
found = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        found[name] = f"{type(error).__name__}: {error}"
print(json.dumps({"failed": found, "gpu": torch.cuda.is_available()}))
"""
PROBE = (sys.executable, "-c", _PROBE)


def forks(probe: Sequence[str] = PROBE) -> list[Finding]:
    """One line per fork. An absent fork is no fault: only source=fork needs it."""
    return [fork(pin, find_checkout(pin), probe) for pin in pins().values()]


def fork(pin: Pin, checkout: Checkout | None, probe: Sequence[str] = PROBE) -> Finding:
    """The line of one fork."""
    name = f"fork {pin.pipeline}"
    if checkout is None:
        return ok(name, f"absent, which only source=fork minds: {pin.command}")
    if not checkout.pinned:
        return _unpinned(name, checkout)
    where = f"{checkout.folder} at {pin.commit[:12]}"
    try:
        answer = subprocess.run(
            [*probe, *pin.extensions], capture_output=True, text=True, check=False, timeout=IMPORT_S
        )
        said = json.loads(answer.stdout.strip().splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError):
        return warn(name, f"{where}; importing its extensions ended the process", _readme(checkout))
    return _usable(name, where, checkout, said["failed"], bool(said["gpu"]))


def _unpinned(name: str, checkout: Checkout) -> Finding:
    pin, folder = checkout.pin, checkout.folder
    if checkout.commit == UNKNOWN:
        clone = f"mv {folder} {folder}.old && git clone --recursive {pin.url} {folder} && git -C {folder} checkout"
        missing = f"{folder} is no git checkout, so nothing says which commit it is; wanted {pin.commit}"
        return warn(name, missing, f"{clone} {pin.commit}")
    if checkout.commit == pin.commit:
        return warn(name, f"{folder} has changed files; records say so", f"git -C {folder} status")
    wrong = f"{folder} is at {checkout.commit[:12]}, the adapter is for {pin.commit[:12]}; records say so"
    return warn(name, wrong, f"git -C {folder} checkout {pin.commit}")


def _usable(name: str, where: str, checkout: Checkout, failed: Mapping[str, str], gpu: bool) -> Finding:
    if not gpu:
        return ok(name, f"{where}; no GPU: device=cpu drives it with stand-ins for its extensions, which times nothing")
    if failed:
        module, why = next(iter(failed.items()))
        return warn(name, f"{where}; {module} cannot be imported: {why}", _readme(checkout))
    pin = checkout.pin
    if pin.pipeline in HOST_ONLY:
        return ok(name, f"{where}; extensions import; device=cpu only so far")
    words = f"device=cuda source=fork pipeline={pin.pipeline} padded=false link=none"
    return ok(name, f"{where}; extensions import; {words}")


def _readme(checkout: Checkout) -> str:
    built = ", ".join(checkout.pin.extensions)
    return f"less {checkout.folder / 'README.md'}  (its installation section builds {built})"
