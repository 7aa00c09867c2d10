"""Names of committed files below results/profiles; a test compares."""

COMMITTED_COMPUTE = ("rtx4090",)
CLUSTERS = ("rtx4090-pcie4", "rtx4090-pcie4+erdma160")
FITTED_LINKS = ("fig1-2dgs", "fig1-3dgs", "fig1-dash", "fig1-taming")
