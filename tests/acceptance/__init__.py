"""The acceptance inputs: what users of the field reported, tried through the command line."""
