"""`harness.doctor`: every check on a machine that has it and on one that lacks it."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli import main
from harness.doctor import Finding, State, data, examine, machine, print_findings, ranks
from harness.doctor.finding import missing, ok, warn


@pytest.fixture
def blocked(tmp_path: Path) -> Path:
    """A place below which nothing can be made, also not by root: its parent is a file."""
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "folder"


@pytest.fixture
def unwritable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes no file, whoever asks."""

    def refuse(*args: object, **kwargs: object) -> object:
        raise PermissionError

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)


def probe(code: str) -> tuple[str, ...]:
    """A probe that runs this code instead of importing torch."""
    return (sys.executable, "-c", code)


def test_python() -> None:
    assert machine.python().state is State.OK
    assert machine.python((3, 10)).state is State.MISSING


def test_cores_and_memory() -> None:
    assert machine.cores(2).state is State.OK
    assert machine.cores(1).state is State.WARN
    assert machine.memory(8.0).state is State.OK
    assert machine.memory(1.0).state is State.WARN
    assert machine.memory().state in (State.OK, State.WARN)


def test_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.disk(tmp_path / "not" / "yet").state in (State.OK, State.WARN)
    monkeypatch.setattr(machine, "DISK_GB", 1e12)
    assert machine.disk(tmp_path).state is State.WARN
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert machine.disk(tmp_path).state is State.MISSING


def test_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.shared_memory(tmp_path / "none").state is State.WARN
    assert machine.shared_memory(tmp_path).state is State.OK
    monkeypatch.setattr(machine, "SHARED_GB", 1e12)
    assert "remount" in machine.shared_memory(tmp_path).fix


def test_folders_that_take_no_file(unwritable: None, tmp_path: Path) -> None:
    assert machine.shared_memory(tmp_path).state is State.MISSING
    assert machine.numba_cache(tmp_path).fix.startswith("export NUMBA_CACHE_DIR")
    assert machine.scene_cache().fix.startswith("export ODIN_CACHE")


def test_numba_cache_looks_where_numba_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert machine.numba_cache(tmp_path).found == str(tmp_path)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "configured"))
    assert machine.numba_cache(tmp_path).found == str(tmp_path / "configured")


def test_writable_below_a_file(blocked: Path) -> None:
    assert not machine.writable(blocked)


def test_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.git(tmp_path).state is State.WARN
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    name = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", str(tmp_path), *name, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    assert machine.git(tmp_path).found.startswith("commit ")
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert machine.git(tmp_path).fix == "apt-get install git"


def test_captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODIN_DATA", str(tmp_path))
    assert data.captures().state is State.WARN
    for scene, files in {"whole": data.MODEL_FILES, "half": data.MODEL_FILES[:2]}.items():
        (tmp_path / scene / "sparse" / "0").mkdir(parents=True)
        for name in files:
            (tmp_path / scene / "sparse" / "0" / f"{name}.bin").write_bytes(b"")
    assert data.captures().found == f"whole in {tmp_path}"
    monkeypatch.setenv("ODIN_DATA", str(tmp_path / "none"))
    assert data.captures().state is State.WARN


def test_lpips(monkeypatch: pytest.MonkeyPatch) -> None:
    quality = pytest.importorskip("harness.measure.quality")
    monkeypatch.setattr(quality, "lpips_state", lambda: quality.COMPUTED)
    assert data.lpips().state is State.OK
    monkeypatch.setattr(quality, "lpips_state", lambda: "not computed: package lpips absent")
    assert "pip install" in data.lpips().fix
    monkeypatch.setattr(quality, "lpips_state", lambda: "not computed: weights absent")
    assert quality.WEIGHTS_VARIABLE in data.lpips().fix


def test_facts_of_torch() -> None:
    with_gpu = ranks.read_facts(
        {"version": "2.9", "devices": ["H200", "H200"], "gloo": True, "nccl": True, "gsplat": "1.5.3"}
    )
    assert [finding.found for finding in with_gpu[:3]] == ["2.9", "H200, H200", "built in"]
    assert "up to 2 rank(s), gsplat 1.5.3: device=cuda padded=false link=none ranks=2" in with_gpu[3].found
    without = ranks.read_facts({"version": "2.9", "devices": [], "gloo": False})
    assert without[1].found == "no GPU: process engine on gloo/CPU; results are padded"
    assert without[2].state is State.MISSING
    assert without[3].state is State.OK
    assert "cannot run: no GPU" in without[3].found


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"nccl": False, "gsplat": "1.5.3"}, "without NCCL"),
        ({"nccl": True, "gsplat": ""}, "gsplat is not installed"),
        ({"nccl": True, "gsplat": "1.5.3 cannot be imported: no CUDA_HOME"}, "no CUDA_HOME"),
        ({"nccl": True, "gsplat": "its version is 1.4.0, older than 1.5"}, "older than 1.5"),
    ],
)
def test_what_keeps_a_gpu_from_being_used_is_told(facts: dict, says: str) -> None:
    finding = ranks.gpu_path({"devices": ["H200"], **facts})
    assert finding.state is State.WARN
    assert says in finding.found
    assert "pip install" in finding.fix


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("raise ImportError('libtorch.so: cannot open')", "ImportError: libtorch.so: cannot open"),
        ("import os; os.abort()", "no message"),
        ("import time; time.sleep(30)", "more than 1 s"),
        ("print('hello')", "did not answer"),
        ("pass", "did not answer"),
    ],
)
def test_a_broken_torch_is_missing_and_ends_nothing_else(code: str, says: str) -> None:
    (finding,) = ranks.torch_findings(probe(code), timeout_s=1)
    assert finding.state is State.MISSING
    assert says in finding.found
    assert "pip install" in finding.fix


def test_ranks_that_do_not_meet(capfd: pytest.CaptureFixture[str]) -> None:
    refused = ranks.rendezvous(probe("raise OSError('Connection refused')"))
    assert (refused.state, refused.found) == (
        State.MISSING,
        "two processes did not meet: OSError: Connection refused",
    )
    late = ranks.rendezvous(probe("import time; time.sleep(30)"), timeout_s=1)
    assert "within 1 s" in late.found
    assert capfd.readouterr().err == ""


def test_the_table_and_its_exit_code() -> None:
    stream = io.StringIO()
    findings = [ok("git", "[x]"), warn("lpips", "absent", "pip install " + "x" * 300), missing("torch", "none", "buy")]
    assert print_findings(findings, stream=stream) == 1
    lines = stream.getvalue().splitlines()
    assert lines[0] == "ok      git    [x]"
    assert lines[2] == "               fix: pip install " + "x" * 300
    assert lines[-1].startswith("This machine cannot run yet: torch.")
    assert print_findings(findings[:2], stream=io.StringIO()) == 0
    assert print_findings([], stream=io.StringIO()) == 0


def test_a_check_that_fails_itself_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Finding:
        raise ZeroDivisionError("cores")

    monkeypatch.setattr(machine, "cores", broken)
    monkeypatch.setattr(ranks, "torch_findings", lambda: [])
    (cores,) = [finding for finding in examine(rendezvous=False) if finding.name == "cores"]
    assert cores.found == "could not be examined (ZeroDivisionError: cores)"


def test_the_doctor_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor"])
    out = capsys.readouterr().out
    assert code == (1 if "\nmissing" in f"\n{out}" else 0)
    names = ("python", "cores", "memory", "disk", "shared memory", "torch", "device", "gloo", "rendezvous",
             "numba cache", "scene cache", "real captures", "lpips", "slurm", "git")  # fmt: skip
    assert all(f" {name} " in out for name in names)
    assert "two processes met on 127.0.0.1" in out
