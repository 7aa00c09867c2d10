"""One module per exhibit of the paper: tidy frame in, figure or table out."""
