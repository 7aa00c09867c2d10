"""What the plan's two pictures share: regions' colours and how a figure reaches the disk."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import seaborn as sns
from matplotlib.figure import Figure

from harness.report.figure import STYLE
from harness.store.files import replacing, write_text

# Positions in seaborn's "colorblind"; orange and its neighbours stay free for what travels (Fig. 6).
_REGIONS = (0, 2, 4, 9, 8, 5)
SENT, UPDATED, CHECKED = 1, 3, 7


def colour(position: int) -> str:
    """A colour of the palette as text."""
    return str(sns.color_palette("colorblind").as_hex()[position])


def region_colour(region: int) -> str:
    """Colour of a region; beyond six they repeat. Grey where there are no regions."""
    return colour(_REGIONS[region % len(_REGIONS)]) if region >= 0 else "0.6"


def save(figure: Figure, folder: Path, stem: str, caption: str) -> list[Path]:
    """PDF, PNG (200 dpi) and the caption as `<stem>_caption.txt`; a rerun writes the same bytes.

    Raises RunError when the disk refuses.
    """
    paths = [folder / f"{stem}.pdf", folder / f"{stem}.png"]
    with mpl.rc_context(STYLE):
        with replacing(paths[0]) as temporary:
            figure.savefig(temporary, format="pdf", metadata={"CreationDate": None})
        with replacing(paths[1]) as temporary:
            figure.savefig(temporary, format="png", dpi=200)
    write_text(folder / f"{stem}_caption.txt", caption + "\n")
    return paths
