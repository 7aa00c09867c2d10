"""Renderers behind one interface: project, bin, colour, blend as separate calls, forward and backward."""
