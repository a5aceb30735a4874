"""Wiring: the only package of jacquard that knows concrete stores, indexes, embedders and models."""
