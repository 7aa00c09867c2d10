"""The headline table and figure, from records only."""
