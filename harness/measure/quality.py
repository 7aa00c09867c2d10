"""Image quality under a named protocol, because one word means different numbers; and whether LPIPS can be computed.

    inria   as the code of 3DGS: renders are rounded to 8 bits, SSIM looks beyond the edge into zeros, LPIPS is fed
            [0, 1]
    nerf    as NeRF's line of code: renders stay as they are, SSIM takes windows inside the image only, LPIPS is fed
            [-1, 1]

Both: renders clamped to [0, 1] over the recipe's black background, at the size of the photographs in training; PSNR and
SSIM per view, then the mean over views; SSIM with an 11×11 Gaussian window (σ = 1.5); LPIPS with VGG.
Written apart from the training loss, in float64, so that a mistake in one does not hide in the other.

Legend: H height, W width of a view.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from harness.store.record import Reading, Record
from odin.errors import InputError, RunError

WINDOW, SIGMA = 11, 1.5
C1, C2 = 0.01**2, 0.03**2
# An infinite PSNR (equal images) cannot enter a mean or a record. One step of one channel in a view of a
# megapixel is 113 dB, so nothing below 100 dB is cut.
PSNR_CAP = 100.0
NO_VIEWS = "no test views"

# The eight digits are the start of the file's sha256, as torchvision and torch hub name their files.
VGG_WEIGHTS = "vgg16-397923af.pth"
WEIGHTS_VARIABLE = "ODIN_WEIGHTS"
COMPUTED = "computed"


Protocol = Literal["inria", "nerf"]


class ViewQuality(Record):
    """One view against its photograph. psnr: dB, at most 100; ssim: −1…1."""

    view: str
    psnr: float
    ssim: Reading


class Quality(Record):
    """A split of views: the raw values and their means, which are absent with a reason, never NaN."""

    protocol: Protocol = "inria"
    views: tuple[ViewQuality, ...]
    psnr: Reading
    ssim: Reading

    @model_validator(mode="after")
    def _means_of_views(self) -> Self:
        if (self.psnr, self.ssim) != _means(self.views):
            raise ValueError("the means do not follow from the views; build with Quality.of(views, protocol)")
        return self

    @classmethod
    def of(cls, views: Sequence[ViewQuality], protocol: Protocol = "inria") -> Quality:
        """From the views of a split, of which there may be none, all judged by one protocol."""
        psnr, ssim_mean = _means(views)
        return cls(protocol=protocol, views=tuple(views), psnr=psnr, ssim=ssim_mean)


class Lpips(Record):
    """LPIPS (VGG) per view and its mean, or the state that says why not."""

    state: str
    views: tuple[float, ...] = ()

    @model_validator(mode="after")
    def _computed_or_not(self) -> Self:
        if (self.state == COMPUTED) != bool(self.views):
            raise ValueError("LPIPS has values if and only if its state is 'computed'")
        return self

    @property
    def mean(self) -> Reading:
        """Mean over views, or the state."""
        if not self.views:
            return Reading.absent(self.state)
        return Reading.mean([Reading.of(v) for v in self.views], NO_VIEWS)


def view_quality(
    view: str,
    render: NDArray[np.floating],
    photo: NDArray[np.uint8],
    *,
    with_ssim: bool = True,
    protocol: Protocol = "inria",
) -> ViewQuality:
    """Quality of one render [H, W, 3] (not yet clamped) against its photograph uint8 [H, W, 3].

    Raises InputError on shapes that differ, RunError on a render with NaN or infinity.
    """
    if render.shape != photo.shape or photo.ndim != 3 or photo.dtype != np.uint8:
        raise InputError(
            f"View {view!r}: a render {render.shape} and a photograph {photo.dtype} {photo.shape}; both must "
            "be [height, width, 3] and the photograph uint8."
        )
    if not np.isfinite(render).all():
        raise RunError(f"View {view!r}: the render has NaN or infinite pixels; the parameters have diverged.")
    seen, wanted = as_seen(render, protocol), photo.astype(np.float64) / 255.0
    if not with_ssim:
        similarity = Reading.absent("not computed")
    elif min(photo.shape[:2]) < WINDOW:
        size = f"{photo.shape[1]}×{photo.shape[0]}"
        similarity = Reading.absent(f"n/a: view of {size} is smaller than the {WINDOW}-px window")
    else:
        similarity = Reading.of(ssim(seen, wanted, inside=protocol == "nerf"))
    return ViewQuality(view=view, psnr=psnr(seen, wanted), ssim=similarity)


def as_seen(render: NDArray[np.floating], protocol: Protocol) -> NDArray[np.float64]:
    """What a protocol looks at of a render, in [0, 1]."""
    return eight_bit(render) if protocol == "inria" else np.clip(render.astype(np.float64), 0.0, 1.0)


def eight_bit(render: NDArray[np.floating]) -> NDArray[np.float64]:
    """Clamped to [0, 1] and rounded to 8 bits as by torchvision's save_image (in float32), back in [0, 1]."""
    scaled = np.clip(render, 0.0, 1.0).astype(np.float32) * np.float32(255.0) + np.float32(0.5)
    return np.floor(scaled).clip(0, 255).astype(np.float64) / 255.0


def psnr(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Peak signal-to-noise ratio in dB of two images [H, W, 3] in [0, 1], over all pixels and channels."""
    error = float(np.mean((a - b) ** 2))
    return PSNR_CAP if error == 0.0 else min(PSNR_CAP, -10.0 * math.log10(error))


def ssim(a: NDArray[np.float64], b: NDArray[np.float64], *, inside: bool = False) -> float:
    """Structural similarity of two images [H, W, 3] in [0, 1]: mean over pixels and channels, of zero-padded images;
    `inside`: only of pixels whose window lies in the image, of which there must be some."""
    mean_a, mean_b = _blur(a), _blur(b)
    var_a = _blur(a * a) - mean_a**2
    var_b = _blur(b * b) - mean_b**2
    covariance = _blur(a * b) - mean_a * mean_b
    above = (2 * mean_a * mean_b + C1) * (2 * covariance + C2)
    below = (mean_a**2 + mean_b**2 + C1) * (var_a + var_b + C2)
    edge = WINDOW // 2 if inside else 0
    height, width, _ = a.shape
    return float(np.mean((above / below)[edge : height - edge, edge : width - edge]))


def lpips_state(folder: Path | None = None) -> str:
    """ "computed" when LPIPS can be computed here, else "not computed: <reason>". Never downloads.

    The weights are looked for in `folder`, else in $ODIN_WEIGHTS, then in torch hub's checkpoints.
    """
    for package in ("lpips", "torchvision"):
        if importlib.util.find_spec(package) is None:
            return f"not computed: package {package} absent"
    path = _find_weights(folder)
    if path is None:
        return f"not computed: weights absent ({VGG_WEIGHTS}; set ${WEIGHTS_VARIABLE} to its folder)"
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"not computed: weights cannot be read ({path}: {error.strerror})"
    wanted = VGG_WEIGHTS.removesuffix(".pth").split("-")[1]
    return COMPUTED if found.startswith(wanted) else f"not computed: {path} is damaged (sha256 {found[:8]}…)"


def lpips_quality(
    pairs: Sequence[tuple[NDArray[np.floating], NDArray[np.uint8]]],
    folder: Path | None = None,
    protocol: Protocol = "inria",
) -> Lpips:
    """LPIPS of (render, photograph) pairs, each [H, W, 3], or the state that says why there is none."""
    state = lpips_state(folder) if pairs else f"n/a: {NO_VIEWS}"
    if state != COMPUTED:
        return Lpips(state=state)
    import torch

    network = _network(_find_weights(folder))
    values = []
    with torch.no_grad():
        for render, photo in pairs:
            both = [lpips_input(x, protocol) for x in (as_seen(render, protocol), photo / 255.0)]
            values.append(float(network(*(torch.from_numpy(x).permute(2, 0, 1)[None] for x in both))))
    return Lpips(state=COMPUTED, views=tuple(values))


def lpips_input(image: NDArray[np.float64], protocol: Protocol) -> NDArray[np.float32]:
    """An image in [0, 1] as the network is fed it."""
    fed = image if protocol == "inria" else 2.0 * image - 1.0
    return fed.astype(np.float32)


def _means(views: Sequence[ViewQuality]) -> tuple[Reading, Reading]:
    mean_psnr = Reading.mean([Reading.of(v.psnr) for v in views], NO_VIEWS)
    return mean_psnr, Reading.mean([v.ssim for v in views], NO_VIEWS)


def _blur(image: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.ndimage import correlate1d  # slow to import, and only the rank that judges needs it

    offset = np.arange(WINDOW) - WINDOW // 2
    window = np.exp(-(offset**2) / (2 * SIGMA**2))
    window /= window.sum()
    rows = correlate1d(image, window, axis=0, mode="constant")
    return correlate1d(rows, window, axis=1, mode="constant")


def _find_weights(folder: Path | None) -> Path | None:
    configured = folder or (Path(os.environ[WEIGHTS_VARIABLE]) if os.environ.get(WEIGHTS_VARIABLE) else None)
    # torch.hub.get_dir(), without importing torch to ask.
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "torch"
    hub = Path(os.environ.get("TORCH_HOME", cache)) / "hub" / "checkpoints"
    candidates = [place / VGG_WEIGHTS for place in (configured, hub) if place is not None]
    return next((path for path in candidates if path.is_file()), None)


def _network(weights: Path | None) -> Any:
    """The LPIPS network in evaluation mode with the backbone from that file: `pnet_rand` keeps it offline."""
    import lpips
    import torch

    if weights is None:
        raise InputError(f"{VGG_WEIGHTS} has disappeared since LPIPS was found to be possible.")
    # The random backbone that is replaced below must not advance the run's random numbers.
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        # lpips still calls torchvision with the deprecated `pretrained` argument.
        warnings.simplefilter("ignore")
        network = lpips.LPIPS(net="vgg", pnet_rand=True, verbose=False)
    state = torch.load(weights, map_location="cpu", weights_only=True)
    # "slice1.0.weight" of lpips is "features.0.weight" of torchvision.
    backbone = {name: state["features." + name.split(".", 1)[1]] for name in network.net.state_dict()}
    network.net.load_state_dict(backbone, strict=True)
    return network.eval()
