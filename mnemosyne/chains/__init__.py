"""Rules of the chains (the kinds of memory: state, history, events, lore, …) that every store and the engine use.

A turn is an input with its reply. A head is the last turn of a branch; its lineage is the path from the first turn to the
head, as spans (stretches of branches, each up to a depth). A scope is one session or one world.
"""
