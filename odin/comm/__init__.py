"""Transports: asynchronous collectives with join, start and finish stamps, and the link model."""
