"""`SurfelBackend` on gsplat: its tiles and its 2DGS compositing behind our split calls.

As in `renderer.py`, projection, boxes and colours are our own torch operations, and sums over pixels are atomic on
CUDA. gsplat knows one depth per surfel, that of its centre, where the CPU renderer and Huang et al. have that of each
pixel's intersection; so depth, median and distortion are those of centres here. The distortion is the same sum over
pairs of squared differences of mapped depths, multiplied out from two more channels; gsplat's own takes differences to
the power of one.

`SurfelProjection.transforms` holds gsplat's matrices here, float32 [M, 9].

Legend: M rows, E tile entries, H, W image size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pipelines.camera import Camera
from pipelines.render import sh as harmonics
from pipelines.render.conventions import ALPHA_MIN, NEAR, TILE, tiles
from pipelines.render.device_loss import l1_dssim
from pipelines.render.elementwise import exp, log, sigmoid
from pipelines.render.gsplat.binding import SurfelLibrary, load_surfels
from pipelines.render.gsplat.renderer import TileEntries
from pipelines.render.projection import Vector, rotation_columns, to_camera
from pipelines.render.protocol import Bins
from pipelines.render.surfels.conventions import BOUND, FAR, LOW_PASS
from pipelines.render.surfels.device_regularise import regularise
from pipelines.render.surfels.protocol import MAPS, SurfelBlended, SurfelGradients, SurfelProjection, Weights

# Channels that are composited: colours, mapped depth and its square, two of nothing, depth. Eight, so that gsplat pads
# none behind the last, of which it takes the median.
_MAPPED, _SQUARE, _DEPTH, _CHANNELS = 3, 4, 7, 8


@dataclass(frozen=True, kw_only=True)
class SurfelGraph:
    """`SurfelBlended.data`: image and maps, in the order of dL/dmaps, with their graph, and its leaves."""

    outputs: tuple[torch.Tensor, ...]
    leaves: tuple[torch.Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class _Lines:
    """Surfels in camera space: centre, unit tangents, normal towards the camera, deviations, and what is drawn."""

    centre: Vector
    tangents: tuple[Vector, Vector]
    normal: Vector
    scales: tuple[torch.Tensor, torch.Tensor]
    inside: torch.Tensor


class GsplatSurfelRenderer:
    """`SurfelBackend` on the device of its arguments; stateless.

    library: gsplat; the tests hand in a plain one. Raises InputError where there is none, or no device.
    """

    splittable = True

    def __init__(self, library: SurfelLibrary | None = None) -> None:
        self._gsplat = library or load_surfels()

    def project(self, geometry: torch.Tensor, camera: Camera) -> SurfelProjection:
        """Project rows. geometry: float32 [M, 10] (surfel_columns.py order)."""
        with torch.no_grad():
            lines = _lines(geometry, camera)
            means2d, transforms, normals, opacities, depths = _projected(geometry, lines, camera)
            middles, extents = _boxes(lines, opacities, camera)
        return SurfelProjection(
            means2d=means2d,
            transforms=transforms,
            normals=normals,
            opacities=opacities,
            depths=depths,
            middles=middles,
            extents=extents,
            radii=torch.ceil(extents.amax(dim=1)).clamp(0.0, 1e9).to(torch.int32),
        )

    def project_backward(
        self, geometry: torch.Tensor, camera: Camera, projection: SurfelProjection, grads: SurfelGradients
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradient of the geometry, float32 [M, 10], and the densification statistic, float32 [M, 2]: moving the
        projected centre moves the third column of the matrix by its depth."""
        given = (grads.means2d, grads.transforms, grads.normals, grads.opacities, grads.depths)
        with torch.enable_grad():
            leaf = geometry.detach().requires_grad_()
            outputs = _projected(leaf, _lines(leaf, camera), camera)
        (out,) = torch.autograd.grad(outputs, leaf, given)
        along = grads.transforms.view(-1, 3, 3)[:, :2, 2]
        centres = grads.means2d + projection.depths[:, None] * along
        reached = grads.contributed[:, None]
        return torch.where(reached, out, 0.0), torch.where(reached, centres, 0.0)

    def bin(self, projection: SurfelProjection, camera: Camera) -> Bins:
        """Assign rows to 16×16 tiles, in (depth, row) order. gsplat stops the host here for the number of entries."""
        columns, rows = tiles(camera.width, camera.height)
        radii = torch.ceil(projection.extents).clamp(0.0, 1e9).to(torch.int32)
        _, keys, ids = self._gsplat.isect_tiles(
            projection.middles[None], radii[None], projection.depths[None], TILE, columns, rows
        )
        offsets = self._gsplat.isect_offset_encode(keys, 1, columns, rows)
        return Bins(entries=len(ids), data=TileEntries(offsets=offsets, ids=ids))

    def colour(self, geometry: torch.Tensor, sh: torch.Tensor, camera: Camera, degree: int) -> torch.Tensor:
        """RGB of each row, float32 [M, 3], clamped below at 0. sh: float32 [M, 48], coefficient-major."""
        with torch.no_grad():
            return harmonics.colour(geometry, sh, camera, degree)

    def colour_backward(
        self,
        geometry: torch.Tensor,
        sh: torch.Tensor,
        camera: Camera,
        degree: int,
        rgb: torch.Tensor,
        grad: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradients of geometry [M, 10] (through the view direction) and sh [M, 48]."""
        with torch.enable_grad():
            leaves = geometry.detach().requires_grad_(), sh.detach().requires_grad_()
            again = harmonics.colour(*leaves, camera, degree)
        found = torch.autograd.grad(again, leaves, grad, allow_unused=True)
        direction, coefficients = (torch.zeros_like(x) if g is None else g for x, g in zip(leaves, found, strict=True))
        return direction, coefficients

    def blend(
        self, projection: SurfelProjection, bins: Bins, rgb: torch.Tensor, camera: Camera, background: torch.Tensor
    ) -> SurfelBlended:
        """Front-to-back compositing. background: float32 [3]. `fragments` counts every pixel of a listed tile."""
        p, lists = projection, bins.data
        inputs = (p.means2d, p.transforms, p.normals, p.depths, rgb, p.opacities)
        leaves = tuple(x.detach().requires_grad_() for x in inputs)
        with torch.enable_grad():
            outputs = self._composite(leaves, lists, camera, background)
        image, alpha, depth, median, distortion, normal = (x.detach() for x in outputs)
        return SurfelBlended(
            image=image,
            alpha=alpha,
            depth=depth,
            median=median,
            distortion=distortion,
            normal=normal,
            fragments=bins.entries * TILE * TILE,
            data=SurfelGraph(outputs=outputs, leaves=leaves),
        )

    def _composite(
        self, leaves: tuple[torch.Tensor, ...], lists: TileEntries, camera: Camera, background: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        means2d, transforms, normals, depths, rgb, opacities = leaves
        mapped = FAR / (FAR - NEAR) * (1.0 - NEAR / depths.clamp_min(NEAR))
        none = torch.zeros_like(depths)
        channels = torch.stack([*rgb.unbind(1), mapped, mapped * mapped, none, none, depths], dim=1)
        behind = torch.cat([background, background.new_zeros(_CHANNELS - 3)])
        colours, alphas, normal, _, median = self._gsplat.rasterize_to_pixels_2dgs(
            means2d[None],
            transforms.view(1, -1, 3, 3),
            channels[None],
            opacities[None],
            normals[None],
            torch.zeros_like(means2d)[None],
            camera.width,
            camera.height,
            TILE,
            lists.offsets,
            lists.ids,
            backgrounds=behind[None],
            distloss=False,
        )
        alpha, first, second = alphas[0, ..., 0], colours[0, ..., _MAPPED], colours[0, ..., _SQUARE]
        pairs = alpha * second - first * first  # Σᵢⱼ wᵢwⱼ(mᵢ - mⱼ)² over i < j
        return colours[0, ..., :3], alpha, colours[0, ..., _DEPTH], median[0, ..., 0], pairs, normal[0]

    def blend_backward(
        self,
        projection: SurfelProjection,
        bins: Bins,
        blended: SurfelBlended,
        grad_image: torch.Tensor,
        grad_maps: torch.Tensor,
    ) -> SurfelGradients:
        """Backward of `blend` for dL/dimage [H, W, 3] and dL/dmaps [H, W, 7]. `contributed`: some input of the row has
        a gradient."""
        if grad_maps.shape != (*blended.alpha.shape, MAPS):
            raise ValueError(f"grad_maps is {list(grad_maps.shape)}, expected [H, W, {MAPS}]")
        graph: SurfelGraph = blended.data
        given = (grad_image, *grad_maps[..., :4].unbind(-1), grad_maps[..., 4:])
        found = torch.autograd.grad(graph.outputs, graph.leaves, given)
        means2d, transforms, normals, depths, rgb, opacities = found
        return SurfelGradients(
            means2d=means2d,
            transforms=transforms,
            normals=normals,
            depths=depths,
            rgb=rgb,
            opacities=opacities,
            contributed=(rgb != 0).any(dim=1) | (normals != 0).any(dim=1) | (opacities != 0),
        )

    def loss(
        self, blended: SurfelBlended, photo: torch.Tensor, weight: float, camera: Camera, weights: Weights
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """See `SurfelBackend`: in torch operations, and the host does not wait."""
        loss, gradient = l1_dssim(blended.image, photo, weight)
        geometric, maps = regularise(blended, camera, weights)
        return loss + geometric, gradient, maps


def _lines(geometry: torch.Tensor, camera: Camera) -> _Lines:
    x, y, z, a, b, *rest = geometry.t().contiguous().unbind(0)
    centre = to_camera((x, y, z), camera)
    turned = [_turned(column, camera) for column in rotation_columns(*rest[:4])]
    away = _dot(turned[2], centre) > 0.0
    normal = tuple(torch.where(away, -n, n) for n in turned[2])
    return _Lines(
        centre=centre,
        tangents=(turned[0], turned[1]),
        normal=(normal[0], normal[1], normal[2]),
        scales=(exp(a), exp(b)),
        inside=centre[2] > NEAR,
    )


def _projected(geometry: torch.Tensor, lines: _Lines, camera: Camera) -> tuple[torch.Tensor, ...]:
    """means2d [M, 2], transforms [M, 9], normals [M, 3], opacities [M], depths [M]; with the graph of `geometry`."""
    (x, y, z), inside = lines.centre, lines.inside
    deep = torch.where(inside, z, 1.0)
    scaled = [[s * c for c in t] for s, t in zip(lines.scales, lines.tangents, strict=True)]
    columns = [*scaled, [x, y, z]]  # of the matrix, in camera space
    rows = [
        *(camera.fx * c[0] + camera.cx * c[2] for c in columns),
        *(camera.fy * c[1] + camera.cy * c[2] for c in columns),
        *(c[2] for c in columns),
    ]
    idle = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    transforms = torch.stack([torch.where(inside, r, k) for r, k in zip(rows, idle, strict=True)], dim=1)
    means = [x / deep * camera.fx + camera.cx, y / deep * camera.fy + camera.cy]
    means2d = torch.stack([torch.where(inside, m, 0.0) for m in means], dim=1)
    normals = torch.stack([torch.where(inside, n, 0.0) for n in lines.normal], dim=1)
    return means2d, transforms, normals, torch.where(inside, sigmoid(geometry[:, 9]), 0.0), z


def _boxes(lines: _Lines, opacities: torch.Tensor, camera: Camera) -> tuple[torch.Tensor, torch.Tensor]:
    """Middles and extents [M, 2] as `projection_kernels.write_box` has them: everywhere else alpha is below 1/255."""
    reach2 = 2.0 * log(opacities.double().clamp_min(1e-300) / ALPHA_MIN)
    touched = lines.inside & (reach2 > 0.0)
    reach2 = reach2.clamp_min(0.0)
    x, y, z = (torch.where(touched, c.double(), 1.0) for c in lines.centre)
    (au, av), (bu, bv), (cu, cv) = (
        [s.double() * t[axis].double() for s, t in zip(lines.scales, lines.tangents, strict=True)] for axis in range(3)
    )
    lean2 = cu * cu + cv * cv
    bounded = z - torch.sqrt(reach2 * lean2) > BOUND
    d = torch.where(bounded, z * z - reach2 * lean2, 1.0)
    blur = torch.sqrt(reach2 / LOW_PASS)
    middles, extents = [], []
    columns, rows = tiles(camera.width, camera.height)
    axes = ((x, au, av, camera.fx, camera.cx, columns), (y, bu, bv, camera.fy, camera.cy, rows))
    for place, tu, tv, focal, principal, count in axes:
        slope, grid = place / z, float(TILE * count)
        iu, iv = focal * (tu - slope * cu), focal * (tv - slope * cv)
        lean = -reach2 * (iu * cu + iv * cv)
        root = torch.sqrt((lean * lean + d * reach2 * (iu * iu + iv * iv)).clamp_min(0.0))
        centre = slope * focal + principal
        low, high = torch.minimum((lean - root) / d, -blur), torch.maximum((lean + root) / d, blur)
        low = torch.where(bounded, low, (centre - blur).clamp_max(0.0) - centre)
        high = torch.where(bounded, high, (centre + blur).clamp_min(grid) - centre)
        # What float32 of the matrix may shift the edge by, as in the kernels.
        half = (0.5 * (high - low) * (1.0 + 1e-5) + 1e-3 + 1e-6 * centre.abs()).float()
        middle = (centre + 0.5 * (low + high)).float()
        touched = touched & (middle + half >= 0.0) & (middle - half < grid)
        middles.append(middle)
        extents.append(half)
    drawn = touched[:, None]
    return torch.where(drawn, torch.stack(middles, 1), 0.0), torch.where(drawn, torch.stack(extents, 1), -1.0)


def _turned(vector: Vector, camera: Camera) -> Vector:
    a, b, c = vector
    x, y, z = (float(row[0]) * a + float(row[1]) * b + float(row[2]) * c for row in camera.rotation)
    return x, y, z


def _dot(a: Vector, b: Vector) -> torch.Tensor:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
