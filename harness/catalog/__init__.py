"""The captures of the paper's Table 2: where they lie, at which resolution, how to get them, and that they stay."""
