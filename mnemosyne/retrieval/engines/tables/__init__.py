"""Tables in memory: the rows of one scope with their words and vectors, and an index over several such tables."""
