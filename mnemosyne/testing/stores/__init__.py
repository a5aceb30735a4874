"""The groups of tests of the Store contract."""
