"""What a study runs: frozen, checked dataclasses, composed from `harness/conf` and `key=value` words."""

from harness.config.cells import Cell, expand
from harness.config.compose import load
from harness.config.resolve import identity, resolved
from harness.config.schema import (
    Cluster,
    Compute,
    Config,
    Engine,
    Link,
    Pipeline,
    Scale,
    Scene,
    Study,
)

__all__ = [
    "Cell",
    "Cluster",
    "Compute",
    "Config",
    "Engine",
    "Link",
    "Pipeline",
    "Scale",
    "Scene",
    "Study",
    "expand",
    "identity",
    "load",
    "resolved",
]
