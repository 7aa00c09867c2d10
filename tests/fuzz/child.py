"""Tries many inputs on readers, in a process of its own: what kills it kills only this one.

python -m tests.fuzz.child FOLDER FACTOR READER…

Input k is made from (reader, k) alone. Before each one its number goes to FOLDER/READER/at, a mapped file that outlives
the process, so that the parent can say which input killed it. Prints one JSON line: for each reader how many inputs
were read and refused, and the first failures.
"""

from __future__ import annotations

import json
import mmap
import random
import resource
import signal
import sys
import traceback
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from odin.errors import InputError
from tests.fuzz.readers import READERS, Files, Reader

ROOM = 256 << 20  # bytes that may be allocated beyond what is there before the first input
PATIENCE = 20.0  # seconds of CPU for one input
MOST_FAILURES = 5

_written: dict[Path, bytes] = {}


def files_of(name: str, number: int) -> Files:
    """The files of an input."""
    return READERS[name].make(random.Random(f"{name} {number}"))


def attempt(reader: Reader, folder: Path, files: Files) -> str:
    """Read an input; "read", "refused", or what went wrong."""
    for name, data in files.items():
        if _written.get(folder / name) is not data:  # most inputs change one file of several
            (folder / name).write_bytes(data)
            _written[folder / name] = data
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
    try:
        reader.read(folder)
    except InputError as error:
        return "refused" if "\n" not in str(error) and len(str(error)) < 20_000 else f"no paragraph: {error!r:.300}"
    except BaseException:
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    return "read"


def limit_memory() -> None:
    """An allocation that is out of all proportion raises MemoryError."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    room = pages * resource.getpagesize() + ROOM
    _, most = resource.getrlimit(resource.RLIMIT_AS)  # kept: the next reader of this process may have more
    resource.setrlimit(resource.RLIMIT_AS, (room, most))


def _late(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"more than {PATIENCE:.0f} s for one input")


def main(name: str, folder: Path, count: int) -> dict[str, Any]:
    """Try the inputs 0…count−1 of a reader."""
    reader, seen, failures = READERS[name], Counter[str](), []
    folder.mkdir()
    (folder / "at").write_bytes(bytes(8))
    reader.prepare(folder)
    attempt(reader, folder, files_of(name, -1))  # whatever is imported and compiled late is there by then
    limit_memory()
    with (folder / "at").open("r+b") as file, mmap.mmap(file.fileno(), 8) as at:
        for number in range(count):
            at[:] = number.to_bytes(8, "little")
            outcome = attempt(reader, folder, files_of(name, number))
            seen[outcome if outcome in ("read", "refused") else "failed"] += 1
            if outcome not in ("read", "refused"):
                failures.append(f"input {number} of {name}: {outcome}")
            if len(failures) == MOST_FAILURES:
                break
    return {"read": seen["read"], "refused": seen["refused"], "failures": failures}


if __name__ == "__main__":
    signal.signal(signal.SIGVTALRM, _late)
    root, factor = Path(sys.argv[1]), int(sys.argv[2])
    print(json.dumps({name: main(name, root / name, factor * READERS[name].inputs) for name in sys.argv[3:]}))
