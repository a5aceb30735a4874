"""Savings of a host by a published index of a large world, and the cost of opening it."""
