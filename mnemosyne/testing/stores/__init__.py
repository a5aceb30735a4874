"""Tests of the Store contract, in groups."""
