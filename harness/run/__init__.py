"""Running cells: rank processes, pairs in mirrored order, supervision."""
