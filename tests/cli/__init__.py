"""Command line, configuration, doctor and progress."""
