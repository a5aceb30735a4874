"""Wiring: builds an engine from settings; the only folder that knows concrete stores, indexes, embedders and models."""
