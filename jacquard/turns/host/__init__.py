"""Parts of the engine that face the host (the program that calls it): input values, session locks, cached turns."""
