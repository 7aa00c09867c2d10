"""Studies: a matrix of pairs from one file, run pair by pair, with the state of every cell and one table."""
