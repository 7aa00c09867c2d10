"""PSNR and SSIM against a plain implementation, and the states of LPIPS."""

from __future__ import annotations

import hashlib
import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.signal import convolve2d

from harness.measure import quality as module
from harness.measure.quality import (
    COMPUTED,
    Lpips,
    Quality,
    ViewQuality,
    eight_bit,
    lpips_input,
    lpips_quality,
    lpips_state,
    psnr,
    ssim,
    view_quality,
)
from harness.store.record import Reading
from odin.errors import InputError, RunError


def images(seed: int, height: int = 13, width: int = 17) -> tuple[np.ndarray, np.ndarray]:
    """A photograph and a render that resembles it, with values outside [0, 1]."""
    rng = np.random.default_rng(seed)
    photo = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    render = photo / 255.0 + rng.normal(0, 0.1, photo.shape)
    return render.astype(np.float32), photo


def plain_ssim(a: np.ndarray, b: np.ndarray) -> float:
    """Pixel by pixel from the definition: window sums over the part of the window inside the image."""
    window = np.array([[math.exp(-((x - 5) ** 2 + (y - 5) ** 2) / 4.5) for x in range(11)] for y in range(11)])
    window /= window.sum()
    height, width, channels = a.shape
    total = 0.0
    for c in range(channels):
        for y in range(height):
            for x in range(width):
                top, left = max(0, y - 5), max(0, x - 5)
                pa, pb = a[top : y + 6, left : x + 6, c], b[top : y + 6, left : x + 6, c]
                w = window[top - y + 5 : top - y + 5 + pa.shape[0], left - x + 5 : left - x + 5 + pa.shape[1]]
                ma, mb = (w * pa).sum(), (w * pb).sum()
                va, vb = (w * pa * pa).sum() - ma * ma, (w * pb * pb).sum() - mb * mb
                cov = (w * pa * pb).sum() - ma * mb
                total += ((2 * ma * mb + 1e-4) * (2 * cov + 9e-4)) / ((ma**2 + mb**2 + 1e-4) * (va + vb + 9e-4))
    return total / a.size


def plain_valid_ssim(a: np.ndarray, b: np.ndarray) -> float:
    """By `scipy.signal`'s two-dimensional convolution, which leaves out windows that reach beyond the edge."""
    grid = np.exp(-((np.arange(11) - 5) ** 2) / (2 * 1.5**2))
    window = np.outer(grid, grid) / grid.sum() ** 2

    def blurred(x: np.ndarray) -> np.ndarray:
        return np.stack([convolve2d(x[..., c], window, mode="valid") for c in range(3)], axis=2)

    ma, mb = blurred(a), blurred(b)
    va, vb, cov = blurred(a * a) - ma * ma, blurred(b * b) - mb * mb, blurred(a * b) - ma * mb
    return float(np.mean((2 * ma * mb + 1e-4) * (2 * cov + 9e-4) / ((ma**2 + mb**2 + 1e-4) * (va + vb + 9e-4))))


def plain_eight_bit(value: float) -> float:
    """One value, by the definition, in float32 as torchvision does it (float64 differs where a value ties)."""
    scaled = np.float32(min(max(value, 0.0), 1.0)) * np.float32(255) + np.float32(0.5)
    return math.floor(scaled) / 255


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 1000))
@example(75)  # a pixel that ties
def test_psnr_and_ssim_against_a_plain_implementation(seed: int) -> None:
    render, photo = images(seed)
    seen = np.vectorize(plain_eight_bit)(render)
    wanted = photo / 255.0
    squares = [(p - q) ** 2 for p, q in zip(seen.ravel().tolist(), wanted.ravel().tolist(), strict=True)]
    found = view_quality("v", render, photo)
    assert found.psnr == pytest.approx(10 * math.log10(len(squares) / math.fsum(squares)), abs=1e-9)
    assert found.ssim.value == pytest.approx(plain_ssim(seen, wanted), abs=1e-12)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 1000), st.integers(11, 14))
def test_the_nerf_protocol_takes_windows_inside_and_does_not_round(seed: int, height: int) -> None:
    render, photo = images(seed, height)
    seen, wanted = np.clip(render.astype(np.float64), 0, 1), photo / 255.0
    found = view_quality("v", render, photo, protocol="nerf")
    assert found.psnr == pytest.approx(-10 * math.log10(((seen - wanted) ** 2).mean()), abs=1e-9)
    assert found.ssim.value == pytest.approx(plain_valid_ssim(seen, wanted), abs=1e-12)
    assert found.ssim.value != view_quality("v", render, photo).ssim.value
    assert Quality.of([found], "nerf").protocol == "nerf"


def test_lpips_is_fed_what_the_protocol_says() -> None:
    image = np.array([[[0.0, 0.5, 1.0]]])
    assert lpips_input(image, "inria").ravel().tolist() == [0.0, 0.5, 1.0]
    assert lpips_input(image, "nerf").ravel().tolist() == [-1.0, 0.0, 1.0]


def test_rounding_to_eight_bits_loses_nothing_on_eight_bit_values() -> None:
    levels = np.arange(256, dtype=np.float32).reshape(16, 16, 1) / np.float32(255)
    np.testing.assert_array_equal(eight_bit(levels)[..., 0].ravel(), np.arange(256) / 255)
    np.testing.assert_array_equal(eight_bit(np.array([-1.0, 2.0, 0.5 / 255])), [0.0, 1.0, 1 / 255])


def test_equal_images_are_at_the_cap() -> None:
    _, photo = images(0)
    found = view_quality("v", photo / 255.0, photo)
    assert (found.psnr, found.ssim.value) == (100.0, pytest.approx(1.0))
    one_off = np.ones((900, 900, 3))
    one_off[0, 0, 0] = 254 / 255
    assert psnr(np.ones_like(one_off), one_off) == 100.0  # 112 dB, cut


def test_known_values() -> None:
    black, grey = np.zeros((16, 16, 3)), np.full((16, 16, 3), 0.5)
    assert psnr(black, grey) == pytest.approx(6.0206, abs=1e-4)
    # Zero padding makes even a constant image vary at its edge, so this is not (C1)(C2)/… of the centre.
    assert ssim(grey, grey) == pytest.approx(1.0)
    assert ssim(black, grey) < 0.01


@pytest.mark.parametrize("shape", [(10, 40, 3), (40, 10, 3), (8, 6, 3)])
def test_a_view_smaller_than_the_window_says_so(shape: tuple[int, ...]) -> None:
    found = view_quality("v", np.zeros(shape), np.zeros(shape, np.uint8))
    assert found.ssim.reason == f"n/a: view of {shape[1]}×{shape[0]} is smaller than the 11-px window"
    assert found.psnr == 100.0
    assert Quality.of([found]).ssim.reason == found.ssim.reason


def test_ssim_may_be_left_out() -> None:
    render, photo = images(1)
    assert view_quality("v", render, photo, with_ssim=False).ssim.reason == "not computed"


@pytest.mark.parametrize(
    "render, photo",
    [
        (np.zeros((12, 12, 3)), np.zeros((12, 13, 3), np.uint8)),
        (np.zeros((12, 12)), np.zeros((12, 12), np.uint8)),
        (np.zeros((12, 12, 3)), np.zeros((12, 12, 3))),
    ],
)
def test_shapes_and_types_that_do_not_fit_are_refused(render: Any, photo: Any) -> None:
    with pytest.raises(InputError, match="'v'"):
        view_quality("v", render, photo)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_render_that_has_diverged_is_a_failed_run(value: float) -> None:
    render, photo = images(2)
    render[3, 4, 1] = value
    with pytest.raises(RunError, match="diverged"):
        view_quality("v", render, photo)


def test_means_are_those_of_the_views() -> None:
    views = [ViewQuality(view=str(k), psnr=20.0 + k, ssim=Reading.of(0.5 + 0.1 * k)) for k in range(3)]
    found = Quality.of(views)
    assert (found.psnr.value, found.ssim.value) == (21.0, pytest.approx(0.6))
    assert Quality.model_validate_json(found.model_dump_json()) == found
    with pytest.raises(ValidationError, match="do not follow"):
        Quality(views=tuple(views), psnr=Reading.of(25.0), ssim=found.ssim)


def test_a_split_without_views_has_a_reason() -> None:
    found = Quality.of([])
    assert found.psnr.reason == found.ssim.reason == "n/a: no test views"
    assert "NaN" not in found.model_dump_json()
    assert lpips_quality([]).state == "n/a: no test views"


def test_lpips_has_values_if_and_only_if_it_was_computed() -> None:
    assert Lpips(state=COMPUTED, views=(0.2, 0.4)).mean.value == pytest.approx(0.3)
    assert Lpips(state="not computed: why").mean.reason == "not computed: why"
    for keys in ({"state": COMPUTED}, {"state": "not computed: why", "views": (0.1,)}):
        with pytest.raises(ValidationError):
            Lpips(**keys)


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty torch hub, no configured folder, and both packages there."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "hub"))
    monkeypatch.delenv("ODIN_WEIGHTS", raising=False)
    packages(monkeypatch, lpips=True)
    return tmp_path


def packages(monkeypatch: pytest.MonkeyPatch, *, lpips: bool) -> None:
    """Pretend that torchvision is there and lpips is or is not; other packages are looked up as they are."""
    real = importlib.util.find_spec
    pretended = {"torchvision": object(), "lpips": object() if lpips else None}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: pretended[name] if name in pretended else real(name, *rest)
    )


def test_lpips_without_its_package(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages(monkeypatch, lpips=False)
    assert lpips_state(offline) == "not computed: package lpips absent"
    render, photo = images(3)
    assert lpips_quality([(render, photo)]).mean.reason == "not computed: package lpips absent"


def test_lpips_without_weights(offline: Path) -> None:
    for folder in (None, offline / "nowhere"):
        assert lpips_state(folder).startswith("not computed: weights absent (vgg16-397923af.pth; set $ODIN_WEIGHTS")


def test_weights_are_looked_for_in_three_places(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"weights"
    name = f"vgg16-{hashlib.sha256(content).hexdigest()[:8]}.pth"
    monkeypatch.setattr(module, "VGG_WEIGHTS", name)
    places = [offline / "hub" / "hub" / "checkpoints", offline / "variable", offline / "argument"]
    for place in places:
        place.mkdir(parents=True)
    (places[0] / name).write_bytes(content)
    assert lpips_state() == COMPUTED
    (places[1] / name).write_bytes(b"other")
    monkeypatch.setenv("ODIN_WEIGHTS", str(places[1]))
    assert lpips_state() == f"not computed: {places[1] / name} is damaged (sha256 d9298a10…)"
    (places[2] / name).write_bytes(content)
    assert lpips_state(places[2]) == COMPUTED


@pytest.mark.skipif(importlib.util.find_spec("lpips") is None, reason="the extra `lpips` is not installed")
def test_lpips_is_computed_from_a_weights_file_alone(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from torchvision.models import vgg16

    torch.manual_seed(0)
    backbone = {f"features.{name}": value for name, value in vgg16(weights=None).features.state_dict().items()}
    torch.save(backbone, offline / "w.pth")
    name = f"vgg16-{hashlib.sha256((offline / 'w.pth').read_bytes()).hexdigest()[:8]}.pth"
    (offline / "w.pth").rename(offline / name)
    monkeypatch.setattr(module, "VGG_WEIGHTS", name)
    render, photo = images(4, 48, 48)
    before = torch.random.get_rng_state()
    found = lpips_quality([(render, photo), (photo / 255.0, photo)], offline)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert found.state == COMPUTED
    assert found.views[0] > 0 and found.views[1] == 0.0
