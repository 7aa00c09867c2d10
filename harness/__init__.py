"""Cells, pairs and studies: configuration, scenes, runs, measurement, records, report, and the command line."""
