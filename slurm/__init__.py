"""How a pair gets onto nodes: submission through submitit, cluster profiles, job states, a one-host test cluster.

All ranks of one pair lie on one node, where they share a clock and memory for stamps, or on several, where srun starts
a task for each and the real network is measured.
"""
