"""What `jacquard doctor` looks at, a module for each kind; every check returns what it found and writes nothing."""
