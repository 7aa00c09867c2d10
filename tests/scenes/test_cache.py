"""The cache of generated arrays: whole files only, one generation for many askers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from harness.scenes.procedural.cache import Arrays, cache_folder, cached


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ODIN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Generator:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Arrays:
        self.calls += 1
        return {"a": np.arange(1000), "b": np.ones((3, 2), np.uint8)}


def ignore(line: str) -> None:
    """A progress that nobody reads."""


def test_the_second_time_nothing_is_generated(folder: Path) -> None:
    generate = Generator()
    first, second = (cached("x", generate, progress=ignore) for _ in range(2))
    assert generate.calls == 1
    assert first.keys() == second.keys()
    for key in first:
        np.testing.assert_array_equal(first[key], second[key])
        assert first[key].dtype == second[key].dtype
    assert {path.suffix for path in folder.iterdir()} <= {".npz", ".lock"}


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", b"not a zip file", None])
def test_a_damaged_file_is_generated_again(folder: Path, damage: bytes | None) -> None:
    generate = Generator()
    cached("x", generate, progress=ignore)
    whole = (folder / "x.npz").read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    (folder / "x.npz").write_bytes(bytes(flipped) if damage is None else damage)
    np.testing.assert_array_equal(cached("x", generate, progress=ignore)["a"], np.arange(1000))
    assert generate.calls == 2
    assert (folder / "x.npz").read_bytes() == whole


def test_a_generator_that_fails_leaves_nothing(folder: Path) -> None:
    def fail() -> Arrays:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        cached("x", fail, progress=ignore)
    assert not list(folder.glob("*.npz")) and not list(folder.glob("*.tmp"))
    assert cached("x", Generator(), progress=ignore)


def test_a_folder_that_cannot_be_made_is_reported_and_survived(folder: Path) -> None:
    folder.write_text("a file where the folder should be")
    told: list[str] = []
    assert cached("x", Generator(), progress=told.append)["a"].size == 1000
    assert "cannot be written" in told[0]


def test_processes_that_ask_at_once_share_one_generation(folder: Path) -> None:
    code = """if True:
        import time, numpy as np
        from harness.scenes.procedural.cache import cached
        def generate():
            print("generated", flush=True)
            time.sleep(1.0)
            return {"a": np.arange(200_000)}
        assert cached("x", generate, progress=print)["a"][-1] == 199_999
    """
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [process.communicate(timeout=60)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert "".join(outputs).count("generated") == 1
    assert not list(folder.glob("*.tmp"))


def test_without_odin_cache_the_user_folder_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ODIN_CACHE")
    assert cache_folder().name == "odin-bench"
