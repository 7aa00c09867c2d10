"""Measurement: price profiles, time breakdown, timelines, image quality."""
