"""Ranks of one pair on several nodes: layout, what srun says of a lost task, and a real run on two virtual nodes."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest

from harness.cli import main
from harness.run.spread import interface_of, serve_store, source_address
from harness.store.schema import Status
from harness.store.store import CellStore
from odin.errors import InputError, RunError
from slurm.commands import submit_app
from slurm.layout import Layout
from slurm.profile import read_profile
from slurm.ranks import read_killed
from tests.slurm.clusters import TINY, command, connected, finished, logs
from tests.study import studies


def test_ranks_fill_nodes_evenly(tmp_path: Path) -> None:
    words = {"link": "none", "padded": False, "steps": 4, "ranks": 4}
    (pair,) = studies.plan(tmp_path, seeds=(0,), set=words).pairs
    profile = read_profile("x", {"ranks_per_node": 2, "cpus_per_rank": 3, "ports": [4000]})
    assert profile.layout(pair) == Layout(nodes=2, per_node=2, cpus=3, ports=(4000,))
    asked = profile.resources(pair)
    assert (asked["nodes"], asked["ntasks_per_node"], asked["cpus_per_task"]) == (2, 2, 3)
    assert read_profile("x", {"ranks_per_node": 4}).layout(pair) is None
    assert read_profile("x", {}).layout(pair) is None
    with pytest.raises(InputError, match="a multiple of ranks_per_node"):
        read_profile("x", {"ranks_per_node": 3}).layout(pair)


def test_a_gpu_node_is_asked_for_its_ranks_gpus(tmp_path: Path) -> None:
    words = {"link": "none", "padded": False, "device": "cuda", "steps": 4, "ranks": 8}
    (pair,) = studies.plan(tmp_path, seeds=(0,), set=words, pairs=[["barrier", "barrier-planned"]]).pairs
    asked = read_profile("x", {"ranks_per_node": 4, "cpus_per_rank": 2}).resources(pair)
    assert (asked["nodes"], asked["gpus_per_node"], asked["ntasks_per_node"]) == (2, 4, 4)


@pytest.mark.parametrize("words", [{"padded": True}, {"link": "exposed-295"}])
def test_emulation_needs_one_host(words: dict, tmp_path: Path) -> None:
    chosen = {"link": "none", "padded": False, "steps": 4, "ranks": 4, **words}
    (pair,) = studies.plan(tmp_path, seeds=(0,), set=chosen).pairs
    with pytest.raises(InputError, match="memory of one host"):
        read_profile("x", {"ranks_per_node": 2}).resources(pair)
    assert read_profile("x", {}).resources(pair)["nodes"] == 1


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"ranks_per_node": 0}, "ranks_per_node=0 is refused"),
        ({"rendezvous": "udp"}, "nearest one is rendezvous=tcp"),
        ({"ports": [80]}, "ports=80 is refused"),
    ],
)
def test_wrong_layouts_are_refused(data: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_profile("x", data)


KILLED = """srun: cluster configuration lacks support for cpu binding
srun: error: n2: task 3: Killed
srun: launch/slurm: _step_signal: Terminating StepId=55995835.0
srun: error: n2: task 2: Terminated
srun: error: n1: tasks 0-1: Terminated
"""
FAILED = """srun: error: n1: task 1: Exited with exit code 1
srun: launch/slurm: _step_signal: Terminating StepId=55995835.0
srun: error: n2: tasks 2-3: Killed
"""


def test_the_first_task_that_was_killed_is_named() -> None:
    assert read_killed(KILLED) == ("Rank 3 on n2", "it was ended by the system (Killed)", 3)
    assert read_killed(FAILED) is None  # what was killed afterwards is no cause
    assert read_killed("srun: error: Node failure on n2\n") == ("Node n2", "Slurm lost it", None)
    assert read_killed("") is None


def test_a_port_that_is_taken_is_left_for_another() -> None:
    with contextlib.closing(socket.socket()) as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        taken = other.getsockname()[1]
        store = serve_store((taken, 0))
        assert store.port != taken
        with pytest.raises(RunError, match=f"tried {taken} "):
            serve_store((taken,))


def test_the_way_to_a_host_names_an_interface() -> None:
    assert interface_of(source_address("127.0.0.1")) == "lo"
    with pytest.raises(RunError, match="GLOO_SOCKET_IFNAME"):
        interface_of("192.0.2.1")


def study(tmp_path: Path, **parts: object) -> Path:
    path = tmp_path / "spread.yaml"
    chosen = {
        "set": {"scene": TINY, "link": "none", "padded": False, "ranks": 2, "steps": 2},
        "pairs": [["barrier", "quality"]],
        **parts,
    }
    import yaml

    path.write_text(yaml.safe_dump(chosen))
    return path


def profile(tmp_path: Path, **keys: object) -> Path:
    path = tmp_path / "nodes.yaml"
    path.write_text("".join(f"{key}: {value}\n" for key, value in {"hours": 0.25, "ranks_per_node": 1, **keys}.items()))
    return path


def test_what_cannot_be_asked_for_is_refused_before_anything_is_written(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    file = study(tmp_path, set={"ranks": 2, "steps": 4})  # padded, on an emulated link
    out = tmp_path / "runs"
    assert command(submit_app, str(file), f"cluster={profile(tmp_path)}", f"out={out}") == 2
    assert "memory of one host" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_study_over_two_nodes_of_two_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """6 pairs × 2 seeds, 2 nodes × 2 ranks: every cell done once, and in the state that one host trains."""
    out, here = tmp_path / "runs", tmp_path / "here"
    file = study(
        tmp_path,
        set={"link": "none", "padded": False, "ranks": 4, "views_per_unit": 1, "steps": 4, "reduce": "ordered"},
        axes={"scene": [TINY, "orbit?views=16&width=64&height=48&points=600"], "seed": [0, 1]},
        pairs=[["barrier", "quality"], ["barrier-planned", "quality"], ["barrier", "barrier-planned"]],
    )
    with connected(tmp_path / "cluster", monkeypatch):
        assert command(submit_app, str(file), f"cluster={profile(tmp_path, ranks_per_node=2)}", f"out={out}") == 0
        finished(out, capsys, 2400)
    assert main(["status", str(out), "--all"]) == 0
    assert "48 cells in 12 pairs: 48 done" in capsys.readouterr().out, logs(out)
    results = list(CellStore(out).results())
    assert len({(r.cell.pair, r.cell.arm, r.cell.repeat) for r in results}) == len(results) == 48
    assert {r.provenance.slurm.tasks for r in results} == {"4"}
    for scene in {r.cell.scene for r in results}:
        for seed in (0, 1):
            exact = [
                r for r in results if (r.cell.scene, r.cell.seeds.run) == (scene, seed) and r.cell.arm != "barrier"
            ]
            assert len({r.measurement.final_digest for r in exact}) == 1
    # One of them on one host, through `run`: same schema, same deterministic quantities.
    assert main(["run", str(file), f"out={here}", f"scene={TINY}", "seed=1"]) == 0
    spread = {r.cell_id: r.measurement for r in results}
    for result in CellStore(here).results():
        there, own = spread[result.cell_id], result.measurement
        assert there.final_digest == own.final_digest and there.quality_final == own.quality_final
        assert there.payload_bytes_per_step == own.payload_bytes_per_step and there.losses == own.losses
        assert set(there.model_dump()) == set(own.model_dump())
    ours, theirs = (pd.read_csv(place / "studies/spread/table.csv").columns.tolist() for place in (here, out))
    assert ours == theirs


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_rank_that_is_killed_on_the_other_node_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """First cause with rank, host and step; the pair is failed and nothing hangs."""
    out = tmp_path / "runs"
    file = study(tmp_path, set={"scene": TINY, "link": "none", "padded": False, "ranks": 2, "steps": 100000})
    with connected(tmp_path / "cluster", monkeypatch) as cluster:
        assert command(submit_app, str(file), f"cluster={profile(tmp_path)}", f"out={out}") == 0
        deadline = time.monotonic() + 300
        while not list(out.glob("scratch/*/rank-1.log")) or "step" not in said(out):
            assert time.monotonic() < deadline, logs(out)
            time.sleep(1)
        kill_rank(cluster.folder, 1)
        finished(out, capsys, 240)
    (failed,) = [r for r in CellStore(out).results() if r.status is Status.FAILED]
    assert "Rank 1 on n2 was the first to go, after " in failed.reason, failed.reason
    assert "steps of barrier #1: it was ended by the system (Killed)" in failed.reason


def said(out: Path) -> str:
    """Progress lines of the pair's job."""
    return "".join("step" for p in out.glob("submissions/*/jobs/*.err") if "barrier #1" in p.read_text())


def kill_rank(cluster: Path, rank: int) -> None:
    """End the process of a rank whose cluster this is."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = " ".join(process.cmdline())
            ours = "slurm.rank" in words and str(cluster.parent) in words
            if ours and process.environ().get("SLURM_PROCID") == str(rank):
                process.kill()
                return
    pytest.fail(f"rank {rank} is not there")
