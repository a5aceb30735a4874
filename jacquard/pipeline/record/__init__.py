"""Record of a turn: its evidence, the prompt and its report, the context package, the commit and the events."""
