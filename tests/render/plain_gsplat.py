"""gsplat's calls as plain torch operations on any device: what the adapter is tested against without a GPU.

Shapes, argument order and meaning are gsplat's (1.5.3 and 1.6.0); one image per call.
"""

from __future__ import annotations

import torch

HIGH, LOW, STOP = 0.99, 1.0 / 255.0, 1e-4


class PlainGsplat:
    """The calls; `calls` counts them by name."""

    __version__ = "1.6.0"

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}

    def _called(self, name: str) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1

    def isect_tiles(self, means2d, radii, depths, tile_size, tile_width, tile_height):
        self._called("isect_tiles")
        rows = means2d.shape[1]
        assert means2d.shape == (1, rows, 2) and means2d.dtype == torch.float32
        assert radii.shape == (1, rows, 2) and radii.dtype == torch.int32
        assert depths.shape == (1, rows) and depths.dtype == torch.float32
        low = torch.floor((means2d[0] - radii[0]) / tile_size)
        high = torch.ceil((means2d[0] + radii[0]) / tile_size)
        bits = depths[0].contiguous().view(torch.int32).to(torch.int64)
        keys, ids = [], []
        for row in range(rows):
            if (radii[0, row] <= 0).any():
                continue
            left, right = (int(v[row, 0].clamp(0, tile_width)) for v in (low, high))
            top, bottom = (int(v[row, 1].clamp(0, tile_height)) for v in (low, high))
            for y in range(top, bottom):
                for x in range(left, right):
                    keys.append((y * tile_width + x) << 32 | int(bits[row]))
                    ids.append(row)
        key, order = torch.sort(torch.tensor(keys, dtype=torch.int64), stable=True)
        return None, key, torch.tensor(ids, dtype=torch.int32)[order]

    def isect_offset_encode(self, isect_ids, n_images, tile_width, tile_height):
        self._called("isect_offset_encode")
        assert n_images == 1
        first = torch.arange(tile_width * tile_height, dtype=torch.int64) << 32
        return torch.searchsorted(isect_ids, first).to(torch.int32).view(1, tile_height, tile_width)

    def rasterize_to_pixels(
        self, means2d, conics, colors, opacities, image_width, image_height, tile_size, isect_offsets, flatten_ids,
        backgrounds=None,
    ):  # fmt: skip
        self._called("rasterize_to_pixels")
        rows = means2d.shape[1]
        assert (conics.shape, colors.shape, opacities.shape) == ((1, rows, 3), (1, rows, 3), (1, rows))
        assert backgrounds.shape == (1, 3)
        starts = [*isect_offsets.view(-1).tolist(), len(flatten_ids)]
        columns = isect_offsets.shape[2]
        lines = []
        for y in range(isect_offsets.shape[1]):
            line = []
            for x in range(columns):
                listed = flatten_ids[starts[y * columns + x] : starts[y * columns + x + 1]].long()
                line.append(self._tile(means2d, conics, colors, opacities, listed, x, y, tile_size, backgrounds[0]))
            lines.append(torch.cat(line, dim=1))
        whole = torch.cat(lines, dim=0)[:image_height, :image_width]
        return whole[None, ..., :3], whole[None, ..., 3:]

    def rasterize_to_pixels_2dgs(
        self, means2d, ray_transforms, colors, opacities, normals, densify, image_width, image_height, tile_size,
        isect_offsets, flatten_ids, backgrounds=None, masks=None, packed=False, absgrad=False, distloss=False,
    ):  # fmt: skip
        self._called("rasterize_to_pixels_2dgs")
        rows, channels = means2d.shape[1], colors.shape[2]
        assert (ray_transforms.shape, normals.shape, densify.shape) == ((1, rows, 3, 3), (1, rows, 3), (1, rows, 2))
        assert (colors.shape, opacities.shape, backgrounds.shape) == ((1, rows, 8), (1, rows), (1, 8))
        starts = [*isect_offsets.view(-1).tolist(), len(flatten_ids)]
        columns, lines = isect_offsets.shape[2], []
        for y in range(isect_offsets.shape[1]):
            line = []
            for x in range(columns):
                listed = flatten_ids[starts[y * columns + x] : starts[y * columns + x + 1]].long()
                inputs = (v[0, listed] for v in (means2d, ray_transforms, colors, opacities, normals))
                line.append(self._surfel_tile(*inputs, x, y, tile_size, backgrounds[0]))
            lines.append(torch.cat(line, dim=1))
        whole = torch.cat(lines, dim=0)[None, :image_height, :image_width]
        colours, alpha, normal, median = whole.split([channels, 1, 3, 1], dim=3)
        return colours, alpha, normal, torch.zeros_like(alpha), median

    def _surfel_tile(self, mean, m, colours, opacity, normals, x, y, size, background):
        ys, xs = torch.meshgrid(torch.arange(size) + 0.5 + y * size, torch.arange(size) + 0.5 + x * size, indexing="ij")
        px, py = xs.reshape(1, -1, 1).double(), ys.reshape(1, -1, 1).double()
        mean, m, colours, opacity, normals = (v.double() for v in (mean, m, colours, opacity, normals))
        cross = torch.linalg.cross(px * m[:, None, 2] - m[:, None, 0], py * m[:, None, 2] - m[:, None, 1])
        u, v = cross[..., 0] / cross[..., 2], cross[..., 1] / cross[..., 2]
        dx, dy = mean[:, :1] - px[..., 0], mean[:, 1:] - py[..., 0]
        raw = opacity[:, None] * torch.exp(-0.5 * torch.minimum(u * u + v * v, 2.0 * (dx * dx + dy * dy)))
        alpha = torch.where(raw >= LOW, raw.clamp(max=HIGH), 0.0)
        alpha = torch.where(torch.cumprod(1.0 - alpha, 0) > STOP, alpha, 0.0)
        after = torch.cat([torch.ones_like(px[..., 0]), torch.cumprod(1.0 - alpha, 0)])
        weight, last = alpha * after[:-1], after[-1]
        colour = torch.einsum("vp,vc->pc", weight, colours) + last[:, None] * background
        normal = torch.einsum("vp,vc->pc", weight, normals)
        above = (weight > 0) & (after[:-1] > 0.5)
        chosen = (torch.arange(1, len(mean) + 1)[:, None] * above).amax(0) if len(mean) else torch.zeros(size * size)
        depth = torch.cat([colours.new_zeros(1), colours[:, -1]])
        median = depth[chosen.long()]
        return torch.cat([colour, 1.0 - last[:, None], normal, median[:, None]], dim=1).view(size, size, -1).float()

    def _tile(self, means2d, conics, colors, opacities, listed, x, y, size, background):
        ys, xs = torch.meshgrid(torch.arange(size) + 0.5 + y * size, torch.arange(size) + 0.5 + x * size, indexing="ij")
        mean, conic = means2d[0, listed].double(), conics[0, listed].double()
        dx, dy = xs.reshape(1, -1) - mean[:, :1], ys.reshape(1, -1) - mean[:, 1:]
        a, b, c = (conic[:, k : k + 1] for k in range(3))
        raw = opacities[0, listed].double()[:, None] * torch.exp(-0.5 * (a * dx * dx + c * dy * dy) - b * dx * dy)
        alpha = torch.where(raw >= LOW, raw.clamp(max=HIGH), 0.0)
        alpha = torch.where(torch.cumprod(1.0 - alpha, 0) >= STOP, alpha, 0.0)
        after = torch.cumprod(1.0 - alpha, 0)
        ones = torch.ones_like(dx[:1] if len(dx) else xs.reshape(1, -1), dtype=torch.float64)
        before = torch.cat([ones, after])[:-1]
        last = after[-1] if len(after) else ones[0]
        colour = torch.einsum("vp,vc->pc", alpha * before, colors[0, listed].double()) + last[:, None] * background
        return torch.cat([colour, 1.0 - last[:, None]], dim=1).view(size, size, 4).float()
