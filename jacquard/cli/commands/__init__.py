"""Commands of the `jacquard` command line, one folder for each group."""
