"""Fixtures of the acceptance inputs."""

from tests.faults.conftest import forked

__all__ = ["forked"]
