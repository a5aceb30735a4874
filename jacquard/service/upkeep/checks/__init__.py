"""Checks of `jacquard operate doctor`, one module for each kind. Every check returns its findings and writes nothing."""
