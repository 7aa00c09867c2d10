"""The two geometric terms of 2DGS with closed-form gradients: normal consistency and depth distortion.

Normal consistency is weight · mean(1 - N·n̂·A): N is the rendered normal (a sum of weight · normal), n̂ the normal of
the rendered depth map by central differences, A the accumulated opacity, which takes no gradient here (upstream
detaches it). Border pixels have no depth normal and count as 1. Distortion is weight · mean of the map.

Legend: H, W image size; camera space, x right, y down, z forward.
"""

from __future__ import annotations

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

from odin.dense import dense
from pipelines.camera import Camera
from pipelines.render.surfels.protocol import MAPS, SurfelBlended, Weights
from pipelines.render.vectors import HELPER, ROW, Vec, cross, dot, mix, vec

Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]

LEAST = 1e-12  # a shorter cross product has no direction


def regularise(blended: SurfelBlended, camera: Camera, weights: Weights) -> tuple[float, torch.Tensor]:
    """Value of both terms and their gradient with respect to the maps, float32 [H, W, 7] (`protocol.MAPS`)."""
    height, width = blended.alpha.shape
    grad = torch.zeros(height, width, MAPS)
    pixels = height * width
    loss = weights.distortion * float(_dense(blended.distortion).mean(dtype=np.float64))
    grad[..., 3] = weights.distortion / pixels
    points, pulled = np.empty((height, width, 3)), np.zeros((height, width, 3))
    ratio = weights.depth_ratio
    back_project(*_maps(blended), _lens(camera), ratio, points)
    normal, alpha = _dense(blended.normal), _dense(blended.alpha)
    scale = weights.normal / pixels
    agreement = normal_consistency(normal, alpha, points, scale, pulled, grad.numpy())
    depth_gradient(*_maps(blended), _lens(camera), ratio, pulled, grad.numpy())
    return loss + weights.normal - scale * agreement, grad


def depth_normals(blended: SurfelBlended, camera: Camera, depth_ratio: float) -> NDArray[np.float32]:
    """Normals of the rendered depth map, camera space, float32 [H, W, 3]; 0 at the border and where none exists."""
    height, width = blended.alpha.shape
    points, out = np.empty((height, width, 3)), np.zeros((height, width, 3))
    back_project(*_maps(blended), _lens(camera), depth_ratio, points)
    fill_normals(points, out)
    return out.astype(np.float32)


def _maps(blended: SurfelBlended) -> tuple[Floats, Floats, Floats]:
    return _dense(blended.alpha), _dense(blended.depth), _dense(blended.median)


def _dense(values: torch.Tensor) -> Floats:
    return dense(values.numpy(), np.float32)


def _lens(camera: Camera) -> tuple[float, float, float, float]:
    return float(camera.fx), float(camera.fy), float(camera.cx), float(camera.cy)


@njit(**HELPER)
def ray(lens: tuple[float, float, float, float], y: int, x: int) -> Vec:
    """Point at depth 1 on the ray of pixel (x, y)."""
    return (x + 0.5 - lens[2]) / lens[0], (y + 0.5 - lens[3]) / lens[1], 1.0


@njit(**HELPER)
def normal_at(points: Doubles, y: int, x: int) -> tuple[Vec, float, Vec, Vec]:
    """Unit normal of the depth map at (x, y), length of the cross product, and the differences down and across."""
    down = mix(1.0, vec(points[y + 1], x), -1.0, vec(points[y - 1], x))
    across = mix(1.0, vec(points[y], x + 1), -1.0, vec(points[y], x - 1))
    c = cross(down, across)
    length = max(np.sqrt(dot(c, c)), LEAST)
    return (c[0] / length, c[1] / length, c[2] / length), length, down, across


@njit(**ROW)
def back_project(
    alpha: Floats,
    depth: Floats,
    median: Floats,
    lens: tuple[float, float, float, float],
    ratio: float,
    points: Doubles,
) -> None:
    """Points [H, W, 3] of the depth map; the origin where nothing is seen."""
    for y in range(alpha.shape[0]):
        for x in range(alpha.shape[1]):
            expected = np.float64(depth[y, x]) / alpha[y, x] if alpha[y, x] > 0 else 0.0
            d = (1.0 - ratio) * expected + ratio * median[y, x]
            direction = ray(lens, y, x)
            points[y, x, 0], points[y, x, 1], points[y, x, 2] = d * direction[0], d * direction[1], d


@njit(**ROW)
def fill_normals(points: Doubles, out: Doubles) -> None:
    """Normals of the depth map [H, W, 3]; the border is left as it is."""
    for y in range(1, points.shape[0] - 1):
        for x in range(1, points.shape[1] - 1):
            n = normal_at(points, y, x)[0]
            out[y, x, 0], out[y, x, 1], out[y, x, 2] = n


@njit(**HELPER)
def add(table: Doubles, y: int, x: int, sign: float, g: Vec) -> None:
    """table[y, x] += sign·g."""
    table[y, x, 0] += sign * g[0]
    table[y, x, 1] += sign * g[1]
    table[y, x, 2] += sign * g[2]


@njit(**ROW)
def normal_consistency(
    normal: Floats, alpha: Floats, points: Doubles, scale: float, pulled: Doubles, grad: Floats
) -> float:
    """Sum over pixels of N·n̂·A. Writes -scale·dSum/dN to channels 4–6 of grad [H, W, 7] and adds -scale·dSum/dpoint
    to pulled [H, W, 3]."""
    total = 0.0
    for y in range(1, points.shape[0] - 1):
        for x in range(1, points.shape[1] - 1):
            n, length, down, across = normal_at(points, y, x)
            seen, a = vec(normal[y], x), np.float64(alpha[y, x])
            total += a * dot(seen, n)
            for j in range(3):
                grad[y, x, 4 + j] = -scale * a * n[j]
            if length <= LEAST:
                continue
            along = dot(seen, n)
            g = mix(-scale * a / length, seen, scale * a * along / length, n)
            by_down, by_across = cross(across, g), cross(g, down)
            add(pulled, y + 1, x, 1.0, by_down)
            add(pulled, y - 1, x, -1.0, by_down)
            add(pulled, y, x + 1, 1.0, by_across)
            add(pulled, y, x - 1, -1.0, by_across)
    return total


@njit(**ROW)
def depth_gradient(
    alpha: Floats,
    depth: Floats,
    median: Floats,
    lens: tuple[float, float, float, float],
    ratio: float,
    pulled: Doubles,
    grad: Floats,
) -> None:
    """Pull gradients of the points back to alpha, depth and median: channels 0–2 of grad [H, W, 7]."""
    for y in range(alpha.shape[0]):
        for x in range(alpha.shape[1]):
            g = dot(vec(pulled[y], x), ray(lens, y, x))
            if alpha[y, x] > 0:
                a = np.float64(alpha[y, x])
                grad[y, x, 0] += -(1.0 - ratio) * g * depth[y, x] / (a * a)
                grad[y, x, 1] += (1.0 - ratio) * g / a
            grad[y, x, 2] += ratio * g
