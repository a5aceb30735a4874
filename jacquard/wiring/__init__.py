"""Builds an engine from settings. Only this folder knows concrete stores, indexes, embedders and models."""
