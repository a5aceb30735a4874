"""Index engines: in memory, in LanceDB, and the tiered index over both."""
