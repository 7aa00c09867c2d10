"""Our own parts against alternatives, and studies too long for CI. Run as `python -m benchmarks.NAME`."""
