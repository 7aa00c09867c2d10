"""How a pair gets onto nodes: submission through submitit, cluster profiles, job states, a one-host test cluster."""
