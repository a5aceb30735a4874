"""Whether the gold answer of a query stands in the prompt."""
