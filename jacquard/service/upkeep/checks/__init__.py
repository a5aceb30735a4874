"""Checks of `jacquard operate doctor`, a module for each kind; every check returns its findings and writes nothing."""
