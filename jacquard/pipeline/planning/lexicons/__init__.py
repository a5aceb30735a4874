"""Words by which the planner reads an input, one module a language; every input is read with all of them."""
