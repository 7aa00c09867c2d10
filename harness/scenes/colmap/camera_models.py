"""Camera models as pycolmap knows them: names, and how many parameters each has."""

from __future__ import annotations

from functools import cache
from typing import Any

# Imported late: pycolmap costs 0.3 s, and dry runs never read a model.


@cache
def parameter_counts() -> dict[str, int]:
    """Model name → number of parameters, for every model of the installed pycolmap."""
    import pycolmap

    models = pycolmap.CameraModelId.__members__
    return {name: len(_example(model).params) for name, model in models.items() if name != "INVALID"}


@cache
def model_names() -> dict[int, str]:
    """Model number in cameras.bin → model name."""
    import pycolmap

    models = pycolmap.CameraModelId.__members__
    return {int(model): name for name, model in models.items() if name != "INVALID"}


def _example(model: Any) -> Any:
    """Any camera of a model; the name of the maker changed between pycolmap 3.11 and 4."""
    import pycolmap

    make = getattr(pycolmap.Camera, "create_from_model_id", None) or pycolmap.Camera.create
    return make(1, model, 1.0, 2, 2)
