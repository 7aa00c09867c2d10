"""Captures: COLMAP models checked before the first step, and procedural scenes that need no download."""

from harness.scenes.load import load_scene
from harness.scenes.spec import CitySpec, FalsifierSpec, OrbitSpec, Progress, RoomsSpec, SceneSpec

__all__ = ["CitySpec", "FalsifierSpec", "OrbitSpec", "Progress", "RoomsSpec", "SceneSpec", "load_scene"]
