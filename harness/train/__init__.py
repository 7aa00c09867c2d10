"""Training with checkpoints: `odin-bench train`, which continues where it was stopped, and `odin-bench evaluate`.

Nothing is timed here. Cells of a study, which are, train without checkpoints and are run again when they are cut off.
"""
