"""Stream A: the blocks that every prompt must have, rendered from templates, the state and the history."""
