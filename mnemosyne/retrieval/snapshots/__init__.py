"""Publishes and fetches snapshots of the index of a large world.

A worker publishes a snapshot once, and hosts fetch and search it. A published snapshot is never changed.
"""
