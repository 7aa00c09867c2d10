"""What the ranks need: torch, a device or none, gloo, and two processes that find each other."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from harness.doctor.finding import Finding, missing, ok, warn
from harness.doctor.probe import MEETING_S

PROBE = (sys.executable, "-m", "harness.doctor.probe")
IMPORT_S = 120  # a cold disk reads torch for up to a minute
GSPLAT = f"{sys.executable} -m pip install 'gsplat>=1.5'"
INSTALL = f"{sys.executable} -m pip install 'torch>=2.9'"


def torch_findings(probe: Sequence[str] = PROBE, timeout_s: float = IMPORT_S) -> list[Finding]:
    """Torch, device and gloo; only torch if that is broken."""
    try:
        answer = subprocess.run([*probe, "facts"], capture_output=True, text=True, check=False, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return [missing("torch", f"importing it takes more than {timeout_s:.0f} s", INSTALL)]
    if answer.returncode:
        return [missing("torch", f"cannot be imported: {_last_line(answer.stderr)}", INSTALL)]
    try:
        return read_facts(json.loads(_last_line(answer.stdout)))
    except ValueError:
        return [missing("torch", f"the probe did not answer but said: {_last_line(answer.stdout)}", INSTALL)]


def read_facts(facts: dict[str, Any]) -> list[Finding]:
    """Findings from what the probe said."""
    devices = facts["devices"]
    gpu = ", ".join(devices) if devices else "no GPU: process engine on gloo/CPU; results are padded"
    gloo = ok("gloo", "built in") if facts["gloo"] else missing("gloo", "this torch was built without it", INSTALL)
    return [ok("torch", facts["version"]), ok("device", gpu), gloo, gpu_path(facts)]


def gpu_path(facts: dict[str, Any]) -> Finding:
    """What of `device=cuda` can run here: one rank per GPU, NCCL between them, gsplat on them."""
    devices, library = facts["devices"], str(facts.get("gsplat", ""))
    if not devices:
        return ok("device=cuda", "cannot run: no GPU. Its tests run on stand-ins; nothing measured here is a GPU's")
    if not facts.get("nccl"):
        return warn("device=cuda", "cannot run: this torch was built without NCCL", INSTALL)
    if not library:
        return warn("device=cuda", f"cannot render on {len(devices)} GPU(s): gsplat is not installed", GSPLAT)
    if not library[0].isdigit() or " " in library:
        return warn("device=cuda", f"cannot render: gsplat: {library}", GSPLAT)
    ranks = f"device=cuda padded=false link=none ranks={len(devices)} arms=[barrier,quality]"
    return ok("device=cuda", f"can run with up to {len(devices)} rank(s), gsplat {library}: {ranks}")


def rendezvous(probe: Sequence[str] = PROBE, timeout_s: float = IMPORT_S + MEETING_S) -> Finding:
    """Whether two processes meet on loopback and add their numbers."""
    port = _free_port()
    started = time.monotonic()
    ranks = [
        subprocess.Popen(
            [*probe, "meet", str(rank), str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    try:
        ends = [rank.communicate(timeout=max(0.1, started + timeout_s - time.monotonic())) for rank in ranks]
    except subprocess.TimeoutExpired:
        return missing("rendezvous", f"two processes did not meet within {timeout_s:.0f} s", _LOOPBACK)
    finally:
        _end(ranks)
    failed = [error for rank, (_, error) in zip(ranks, ends, strict=True) if rank.returncode]
    if failed:
        return missing("rendezvous", f"two processes did not meet: {_last_line(failed[0])}", _LOOPBACK)
    return ok("rendezvous", f"two processes met on 127.0.0.1 in {time.monotonic() - started:.1f} s")


def skipped_rendezvous() -> Finding:
    """The line of a rendezvous that was not tried."""
    return warn("rendezvous", "not tried (--quick)", "odin-bench doctor")


# Gloo looks up the host's own name; a name that does not resolve is the usual cause.
_LOOPBACK = "export GLOO_SOCKET_IFNAME=lo"


def _end(ranks: Sequence[subprocess.Popen[str]]) -> None:
    for rank in ranks:
        rank.kill()
        rank.communicate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else "no message"
