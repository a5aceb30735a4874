"""Shows evidence in prompts as context blocks: derives the blocks, resolves their refs, and renders them as text."""
