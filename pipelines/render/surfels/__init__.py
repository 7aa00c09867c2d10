"""Surfels (2DGS, Huang et al. 2024): flat Gaussians that rays intersect exactly, on the CPU."""

from pipelines.render.surfels.renderer import SurfelRenderer
from pipelines.render.surfels.warm import warm_up_surfels

__all__ = ["SurfelRenderer", "warm_up_surfels"]
