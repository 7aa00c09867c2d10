"""What only a process with torch can tell: `python -m harness.doctor.probe facts | meet RANK PORT`.

Asked in a process of its own, because a broken torch may end the process that imports it.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta

MEETING_S = 20


def facts() -> dict[str, object]:
    """Torch's version, its devices, whether it was built with gloo and NCCL, and gsplat, which only a GPU needs."""
    import torch
    import torch.distributed as dist

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return {
        "version": torch.__version__,
        "devices": [torch.cuda.get_device_name(i) for i in range(count)],
        "gloo": dist.is_available() and dist.is_gloo_available(),
        "nccl": dist.is_available() and dist.is_nccl_available(),
        "gsplat": gsplat(),
    }


def gsplat() -> str:
    """Version of the installed gsplat, or why it cannot be used; "" if it is not installed. It is not imported without
    a device, because importing it may compile."""
    from importlib.metadata import PackageNotFoundError, version

    import torch

    try:
        found = version("gsplat")
    except PackageNotFoundError:
        return ""
    if not torch.cuda.is_available():
        return found
    try:
        import gsplat as library
    except ImportError as error:
        return f"{found} cannot be imported: {error}"
    from pipelines.render.gsplat.binding import unsuited

    return unsuited(library) or found


def meet(rank: int, port: int) -> float:
    """Meet the other rank on loopback and sum rank + 1 over both: 3."""
    import torch
    import torch.distributed as dist

    place = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=2, timeout=timedelta(seconds=MEETING_S))
    try:
        total = torch.tensor([rank + 1.0])
        dist.all_reduce(total)
        return float(total.item())
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    answer = facts() if sys.argv[1] == "facts" else {"sum": meet(int(sys.argv[2]), int(sys.argv[3]))}
    print(json.dumps(answer))
