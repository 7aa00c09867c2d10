"""Cluster profiles: what they ask for, their local twins, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from odin.errors import InputError
from slurm.profile import PROFILES, load_profile, read_profile
from tests.study import studies


@pytest.mark.parametrize("name", sorted(path.stem for path in PROFILES.glob("*.yaml")))
def test_committed_profiles_load_and_have_a_twin(name: str) -> None:
    profile, twin = load_profile(name), load_profile(f"{name}_local")
    assert (profile.local, twin.local) == (False, True)
    assert profile.name == twin.name == name


def test_a_pair_asks_for_a_core_per_rank_on_one_node(tmp_path: Path) -> None:
    (pair,) = studies.plan(tmp_path, seeds=(0,)).pairs
    asked = read_profile("x", {"cpus_per_rank": 3, "hours": 0.5, "mem_gb": 1.5, "partition": "p"}).resources(pair)
    assert (asked["nodes"], asked["ntasks_per_node"], asked["cpus_per_task"]) == (1, 1, 6)
    assert (asked["time"], asked["mem"], asked["partition"]) == (30, "1.5GB", "p")
    assert asked["additional_parameters"]["no-requeue"] is True
    assert "gpus_per_node" not in asked


def test_gpus_are_asked_for_on_cuda(tmp_path: Path) -> None:
    words = {"link": "none", "padded": False, "device": "cuda", "steps": 4}
    (pair,) = studies.plan(tmp_path, seeds=(0,), set=words, pairs=[["barrier", "barrier-planned"]]).pairs
    assert load_profile("gpu").resources(pair)["gpus_per_node"] == 2


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"partitio": "x"}, "nearest valid one is 'partition'"),
        ({"hours": 0}, "hours=0.0 is refused"),
        ({"parallel": 0}, "parallel=0 is refused"),
        ({"setup": "module load cuda"}, "setup=module load cuda is refused"),
        ({"local": True}, "leave it out"),
        ([], "lines"),
    ],
)
def test_wrong_profiles_are_refused(data: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_profile("x", data)


def test_unknown_profiles_name_the_nearest() -> None:
    with pytest.raises(InputError, match="nearest one is cpu"):
        load_profile("cpuu")
    with pytest.raises(InputError, match=r"absent\.yaml cannot be read"):
        load_profile("absent.yaml_local")
