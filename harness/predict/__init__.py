"""`odin-bench predict`: what Odin would do for a scene on a cluster, by the virtual engine and committed prices."""
