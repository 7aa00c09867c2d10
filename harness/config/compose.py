"""Composition by Hydra: defaults of `harness/conf`, chosen groups, then single values."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from harness.config.checks import shown
from harness.config.convert import build
from harness.config.keys import CONF
from harness.config.schema import Config
from harness.config.words import overrides
from odin.errors import InputError

_HYDRA = threading.Lock()  # it composes in one global state


def load(words: Sequence[str] = ()) -> Config:
    """The checked config for `key=value` words as given on the command line.

    A word sets a dotted key (`engine.ranks=1`), a short word where only one key ends in it (`ranks=1`), or
    chooses a group's option (`link=none`); `scene=PATH` takes a folder. Raises InputError for an unknown key,
    an unknown option, a value of the wrong type or out of range.
    """
    return build(Config, composed(overrides(words)))


def composed(changes: list[str]) -> dict[str, Any]:
    """The composed config as plain data, not checked yet. Raises InputError for a value that cannot be read."""
    # Imported here: Hydra takes 0.3 s, which `--help` should not wait for.
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        with _HYDRA, initialize_config_dir(config_dir=str(CONF), version_base="1.3"):
            tree = compose(config_name="config", overrides=changes)
        data = OmegaConf.to_container(tree, resolve=True)
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise InputError(
            f"The values {shown(' '.join(changes))} cannot be read: {shown(_first_line(error))}. "
            "A value is a number, true or false, null, or a list like [20,40]."
        ) from error
    assert isinstance(data, dict)  # the root of config.yaml is a mapping
    return {str(key): value for key, value in data.items()}


def _first_line(error: Exception) -> str:
    """Hydra's further lines repeat the word with a marker below the character."""
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
