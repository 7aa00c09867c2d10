"""Committed price profiles of GPUs, clusters and links: files with a source per constant, and what follows from them.

The files are in `results/profiles`; no study overrides a constant (D§7).
"""
