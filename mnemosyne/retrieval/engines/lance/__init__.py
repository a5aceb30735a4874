"""The durable index: LanceDB tables in a folder, one for each scope."""
