"""The runtime's twins on a CUDA device: row kernel, gradient slot, streams, and time keeping by events."""
