"""Committed profiles: complete, sourced, typed; the derived constants follow from the public ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.config import Compute, load
from harness.config.keys import groups
from harness.config.schema import CLUSTERS, COMMITTED_COMPUTE, FITTED_LINKS
from harness.profiles import load as profiles
from harness.profiles.calibration import cluster_link, committed_prices
from harness.profiles.constants import UNPRICED, ComputeProfile
from odin.errors import InputError
from odin.keeper import Work
from odin.phases import Phase

RTX4090 = profiles.FOLDER / "compute" / "rtx4090.yaml"


def test_every_file_has_its_option_and_is_read() -> None:
    assert profiles.names("compute") == COMMITTED_COMPUTE
    assert profiles.names("cluster") == CLUSTERS
    assert profiles.names("link") == FITTED_LINKS
    for name in COMMITTED_COMPUTE:
        assert profiles.compute_profile(name).name == name
    for name in CLUSTERS:
        assert profiles.cluster_profile(name).name == name
    for name in FITTED_LINKS:
        assert profiles.link_profile(name).name == name
    assert set(groups()["cluster"]) == {"local", *CLUSTERS}
    assert set(groups()["compute"]) == {"host-cpu", *COMMITTED_COMPUTE}


@pytest.mark.parametrize("name", COMMITTED_COMPUTE)
@pytest.mark.parametrize("phase", [phase.value for phase in Phase if phase.value not in UNPRICED])
def test_every_phase_costs_something(name: str, phase: str) -> None:
    prices = committed_prices(Compute(name=name))
    assert prices.price(phase, Work(rows=1000, entries=1000, fragments=1000, pixels=1000)) > 0


def test_only_lateness_is_left_without_a_price() -> None:
    assert {Phase.OVERRUN.value} == UNPRICED


def test_derived_constants_follow_from_the_public_ones() -> None:
    profile = profiles.compute_profile("rtx4090")
    c = {name: constant.value for name, constant in profile.constants.items()}
    truck, train = 1 / c["truck_rate"], 1 / c["train_rate"]
    per_row = (truck - train) / (c["truck_rows"] - c["train_rows"])
    assert c["rest"] == pytest.approx(train - c["train_rows"] * per_row, rel=1e-4)
    assert profile.phases["loss"].seconds["pixels"] == pytest.approx(
        c["rest"] * c["loss_share"] / c["pixels"], rel=1e-3
    )
    view = ("project", "bin", "colour", "blend", "loss", "blend_backward", "colour_backward", "projection_backward")
    launches = sum(profile.phases[phase].kernels for phase in view) * c["launch"]
    blending = c["rest"] * (1 - c["loss_share"]) - launches
    forward = blending / (1 + c["backward_over_forward"]) / (c["pixels"] * c["fragments_per_pixel"])
    assert profile.phases["blend"].seconds["fragments"] == pytest.approx(forward, rel=1e-3)
    backward = forward * c["backward_over_forward"]
    assert profile.phases["blend_backward"].seconds["fragments"] == pytest.approx(backward, rel=1e-3)


def test_a_scaled_scene_costs_what_the_large_one_does_but_for_launches() -> None:
    small, large = Compute(name="rtx4090", scale_rows=100, scale_pixels=10), Compute(name="rtx4090")
    few = Work(rows=10, entries=30, fragments=500, pixels=20)
    many = Work(rows=1000, entries=3000, fragments=5000, pixels=200)
    for phase in committed_prices(large).coefficients:
        assert committed_prices(small).price(phase, few) == pytest.approx(committed_prices(large).price(phase, many))
    assert committed_prices(small).name == "rtx4090×100rows×10pixels"
    assert committed_prices(large).name == "rtx4090"


WRONG = [
    ("  launch:\n", "  lanch:\n", "constant 'launch' is missing"),
    ("unit: bytes/s\n", "units: bytes/s\n", r"constants\.memory_bandwidth\."),
    ("bytes: {rows: 28}", "bytes: {row: 28}", "there is no feature 'row'"),
    ("  gate:\n", "  gates:\n", "there is no phase 'gates'"),
    ("value: 1.008e12", "value: fast", r"constants\.memory_bandwidth\.value"),
    ("value: 1.008e12", "value: -1", r"constants\.memory_bandwidth\.value"),
    ("source: assumed, because row", "source: measured, because row", "starts with 'assumed'"),
    ("    kernels: 2\n    bytes: {rows: 28}\n", "    kernels: 0\n", "would be free"),
    ("name: rtx4090\n", "name: rtx4091\n", "calls itself 'rtx4091'"),
    ("phases:\n", "phases: [\n", "cannot be read"),
]


@pytest.mark.parametrize(("old", "new", "says"), WRONG)
def test_a_wrong_file_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    text = RTX4090.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "rtx4090.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError, match=says) as caught:
        profiles.read(path, ComputeProfile)
    assert "\n" not in str(caught.value)


def test_an_unpriced_phase_is_refused(tmp_path: Path) -> None:
    lines = RTX4090.read_text(encoding="utf-8").splitlines()
    start = lines.index("  audit:")
    stop = next(i for i in range(start + 1, len(lines)) if lines[i].startswith("  ") and lines[i][2] != " ")
    path = tmp_path / "rtx4090.yaml"
    path.write_text("\n".join(lines[:start] + lines[stop:]), encoding="utf-8")
    with pytest.raises(InputError, match="no price for audit"):
        profiles.read(path, ComputeProfile)


def test_a_missing_file_names_those_that_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no profile 'h100'"):
        profiles.read(tmp_path / "h100.yaml", ComputeProfile)


def test_a_cluster_has_room_for_its_ranks() -> None:
    assert cluster_link("rtx4090-pcie4", 8).shaped
    with pytest.raises(InputError, match=r"ranks=9 is refused.*1 node\(s\) of 8"):
        cluster_link("rtx4090-pcie4", 9)
    one, eight = cluster_link("rtx4090-pcie4", 8), cluster_link("rtx4090-pcie4+erdma160", 64)
    assert eight.all_reduce_seconds(10**8, 8) == one.all_reduce_seconds(10**8, 8)
    assert eight.all_reduce_seconds(10**8, 16) > one.all_reduce_seconds(10**8, 8)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["compute=rtx4090"], "host-cpu and 1 on the process engine"),
        (["engine=virtual", "link=cluster"], "exposed-… or none with compute=host-cpu"),
        (["engine=virtual", "compute=rtx4090", "link=cluster"], "with a cluster of GPUs"),
        (["engine=virtual", "compute=rtx4090", "cluster=rtx4090-pcie4"], "with a cluster of GPUs"),
        (["engine=virtual", "compute=rtx4090", "scale_rows=0.5"], "compute.scale_rows=0.5"),
        (["engine=virtual", "scale_rows=2"], "1 with compute=host-cpu"),
        (["engine=virtual", "overlap_slowdown=0.9"], "compute.overlap_slowdown=0.9"),
        (["engine=virtual", "compute=rtx4090", "link=fig1-3dgs", "exposed_share=0.3"], "expected exposed-300"),
    ],
)  # fmt: skip
def test_settings_that_do_not_go_together_are_refused(words: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        load(words)
