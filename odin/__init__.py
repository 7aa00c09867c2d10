"""The system of the paper: graph, plan, scopes, runtime, communication. No file formats, no CLI, no pipeline."""
