"""The Store protocol over ledgers: what the memory store and the file store share."""
