"""Tests of harness.scenes."""
