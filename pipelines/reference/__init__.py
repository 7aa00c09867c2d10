"""Our own short implementations of the five recipes, device-agnostic."""
