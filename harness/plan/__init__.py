"""`odin-bench plan`: what the planner decides about a capture, as text, as plan.json and as two pictures."""
