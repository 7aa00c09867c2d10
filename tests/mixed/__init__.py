"""Mixed parallelism."""
