"""Judges retrieval and selection on labelled data. The three packages below never import it."""
