"""Stages of a turn: planning, the two streams (skeleton and curation), weaving into one prompt, and its record."""
