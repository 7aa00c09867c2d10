"""Materials of the *rooms* capture. Colours are RGB in 0…1, sizes metres."""

from __future__ import annotations

from harness.scenes.procedural.texture import Material, Rgb

_WHITE: Rgb = (0.92, 0.91, 0.88)
_CREAM: Rgb = (0.86, 0.80, 0.66)
_OAK: Rgb = (0.72, 0.52, 0.32)
_WALNUT: Rgb = (0.42, 0.27, 0.16)
_CHARCOAL: Rgb = (0.16, 0.17, 0.20)
_RED: Rgb = (0.72, 0.20, 0.16)
_OCHRE: Rgb = (0.88, 0.64, 0.20)
_TEAL: Rgb = (0.12, 0.46, 0.48)
_NAVY: Rgb = (0.14, 0.20, 0.42)
_SAGE: Rgb = (0.52, 0.62, 0.46)
_ROSE: Rgb = (0.80, 0.55, 0.52)

WALLS = (
    Material(pattern="brick", colours=((0.68, 0.34, 0.24), (0.82, 0.50, 0.36), _CREAM), size=0.5, seed=11),
    Material(pattern="stripes", colours=(_SAGE, (0.66, 0.73, 0.58), _CREAM), size=0.32, seed=12),
    Material(pattern="tiles", colours=((0.36, 0.50, 0.68), (0.62, 0.72, 0.82), _CREAM), size=0.65, seed=13),
)
FLOORS = (
    Material(pattern="planks", colours=(_OAK, _WALNUT), size=0.24, seed=21),
    Material(pattern="checker", colours=(_WHITE, _CHARCOAL), size=0.4, seed=22),
    Material(pattern="planks", colours=((0.80, 0.70, 0.55), (0.62, 0.48, 0.34)), size=0.3, seed=23),
)
BASE = {
    "white": Material(pattern="plain", colours=(_WHITE, (0.84, 0.83, 0.80)), size=0.4, seed=31),
    "ceiling": Material(pattern="tiles", colours=(_WHITE, (0.78, 0.78, 0.76), (0.62, 0.62, 0.62)), size=0.6, seed=32),
    "oak": Material(pattern="planks", colours=(_OAK, (0.60, 0.40, 0.24)), size=0.16, seed=33),
    "walnut": Material(pattern="planks", colours=(_WALNUT, (0.55, 0.36, 0.22)), size=0.2, seed=34),
    "steel": Material(pattern="plain", colours=((0.62, 0.64, 0.66), (0.78, 0.79, 0.80)), size=0.5, seed=35),
    "kitchen": Material(pattern="tiles", colours=(_TEAL, (0.30, 0.62, 0.60), _WHITE), size=0.2, seed=36),
    "stone": Material(pattern="plain", colours=((0.35, 0.35, 0.36), (0.62, 0.60, 0.58)), size=0.15, seed=37),
    "sofa": Material(pattern="stripes", colours=(_RED, (0.60, 0.16, 0.14), _OCHRE), size=0.2, seed=38),
    "cushion": Material(pattern="diamonds", colours=(_OCHRE, _CREAM, _TEAL), size=0.3, seed=39),
    "quilt": Material(pattern="checker", colours=(_NAVY, _ROSE), size=0.22, seed=40),
    "rug": Material(pattern="diamonds", colours=(_CREAM, _RED, _NAVY, _OCHRE), size=0.7, seed=41),
    "shade": Material(pattern="stripes", colours=(_OCHRE, _CREAM, _RED), size=0.12, seed=42),
    "leaves": Material(pattern="plain", colours=((0.10, 0.28, 0.10), (0.45, 0.62, 0.22)), size=0.12, seed=43),
    "clay": Material(pattern="plain", colours=((0.62, 0.32, 0.20), (0.76, 0.46, 0.30)), size=0.15, seed=44),
    "vase": Material(pattern="checker", colours=(_WHITE, _NAVY), size=0.1, seed=45),
    "books": Material(pattern="books", colours=(_RED, _NAVY, _OCHRE, _TEAL, _CREAM, _SAGE, _OAK), size=0.38, seed=46),
}
PICTURES = (
    Material(pattern="picture", colours=(_NAVY, _TEAL, _CREAM, _OCHRE), size=0.9, seed=51),
    Material(pattern="picture", colours=(_RED, _ROSE, _WHITE, _CHARCOAL), size=0.7, seed=52),
    Material(pattern="picture", colours=(_SAGE, _OCHRE, _WALNUT, _CREAM, _TEAL), size=0.8, seed=53),
    Material(pattern="picture", colours=(_WHITE, _NAVY, _RED, _OCHRE), size=0.6, seed=54),
)
