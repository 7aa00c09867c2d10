"""Surfels (2DGS, Huang et al. 2024): flat Gaussians that rays intersect exactly, on the CPU."""

from pipelines.render.surfels.renderer import SurfelRenderer

__all__ = ["SurfelRenderer"]
