"""Captures: COLMAP models checked before the first step, and procedural scenes that need no download."""
