"""The index on disk: LanceDB tables in a folder, one for each scope."""
