"""Checks of a pack as a whole: links, state, `$meta`, ops and patterns."""
