"""COLMAP scenes: find the model, read it with bounds checks, check it, attach the images."""
