"""How a cell gets onto cluster nodes."""
