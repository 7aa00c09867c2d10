"""Procedural captures: textured meshes seen through a ray caster, generated on first use and cached."""
