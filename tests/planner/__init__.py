"""Tests of `odin.planner`."""
