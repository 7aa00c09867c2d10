"""Read committed profile files into their types."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from harness.profiles.constants import ClusterProfile, ComputeProfile, LinkProfile
from odin.errors import InputError

FOLDER = Path(__file__).resolve().parents[2] / "results" / "profiles"

M = TypeVar("M", bound=BaseModel)


def names(kind: str) -> tuple[str, ...]:
    """Profiles of a kind (compute, cluster, link) that are committed."""
    return tuple(sorted(path.stem for path in (FOLDER / kind).glob("*.yaml")))


@cache
def compute_profile(name: str) -> ComputeProfile:
    """Prices of a GPU. Raises InputError."""
    return read(FOLDER / "compute" / f"{name}.yaml", ComputeProfile)


@cache
def cluster_profile(name: str) -> ClusterProfile:
    """The link of a cluster. Raises InputError."""
    return read(FOLDER / "cluster" / f"{name}.yaml", ClusterProfile)


@cache
def link_profile(name: str) -> LinkProfile:
    """A fitted link. Raises InputError."""
    return read(FOLDER / "link" / f"{name}.yaml", LinkProfile)


def read(path: Path, model: type[M]) -> M:
    """A profile file in its type. Raises InputError that names the file, the key and what is wrong with it."""
    # Imported here as in harness/config/compose.py.
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        data = OmegaConf.to_container(OmegaConf.load(path))
    except FileNotFoundError as error:
        known = ", ".join(names(path.parent.name)) or "none"
        raise InputError(
            f"There is no profile {path.stem!r} in {path.parent}. Committed ones of that kind: {known}."
        ) from error
    except (OSError, YAMLError, OmegaConfBaseException) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"The profile {path} cannot be read: {first}. Restore it from the repository.") from error
    try:
        profile = model.model_validate(data)
    except ValidationError as error:
        first_error = error.errors()[0]
        where = ".".join(str(part) for part in first_error["loc"]) or "the profile"
        raise InputError(
            f"The profile {path} is refused at {where}: {first_error['msg']}. Profiles are data with a source per "
            "constant; correct that key, or restore the file."
        ) from error
    if getattr(profile, "name", path.stem) != path.stem:
        raise InputError(f"The profile {path} calls itself {profile.name!r}; file and name have to agree.")  # type: ignore[attr-defined]
    return profile
