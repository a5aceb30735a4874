"""Snapshots of the index of a large world: a worker publishes each once, hosts fetch and search it, nobody changes it."""
