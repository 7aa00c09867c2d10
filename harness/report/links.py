"""Links whose bandwidth was fitted to the paper's Fig. 1, and what a reader has to know of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.config.committed import FITTED_LINKS
from harness.profiles.constants import LinkProfile
from harness.profiles.load import link_profile


def fitted(names: Iterable[str]) -> list[LinkProfile]:
    """The fitted links among these names, each once. Raises InputError where a committed file is broken."""
    return [link_profile(name) for name in sorted(set(names) & set(FITTED_LINKS))]


def by_construction(links: Sequence[LinkProfile]) -> str:
    """What of the numbers on these links is no result, one sentence."""
    shares = ", ".join(f"{link.name} {_percent(link.exposed.value)}" for link in links)
    return (
        f"What barrier exposes agrees with the paper's Fig. 1 by construction: the bandwidths of the links were fitted "
        f"to these very shares ({shares}). No ratio here shows that so much is exposed anywhere; each says what an arm "
        "makes of it."
    )


def link_line(link: LinkProfile) -> str:
    """Where a link's bandwidth comes from."""
    scenes = [scene.exposed for scene in link.fit.scenes]
    names = ", ".join(scene.scene for scene in link.fit.scenes)
    return (
        f"{link.beta.value / 1e9:.4g} GB/s, at which {_percent(link.exposed.value)} of a step are exposed on average "
        f"({link.exposed.source}); {_percent(min(scenes))} to {_percent(max(scenes))} on {names} (seed "
        f"{link.fit.seed}, {link.fit.ranks} ranks, {link.fit.steps} steps)"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
