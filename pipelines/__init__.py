"""Training recipes behind one Protocol, their renderers, and adapters to the published forks."""
