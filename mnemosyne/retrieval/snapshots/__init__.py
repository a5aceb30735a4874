"""Snapshots of the index of a large world: published once by a worker, fetched and searched by hosts, never changed."""
