"""Values, protocols and errors that every other folder of jacquard uses."""
