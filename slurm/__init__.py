"""How a pair gets onto nodes: submission through submitit, cluster profiles, job states, a one-host test cluster.

Pairs are spread over nodes; all ranks of one pair stay on one node, where they share a clock and memory for stamps.
"""
