"""Mutated files for every reader of files that others may have made: a clear error or a valid object, nothing else."""
