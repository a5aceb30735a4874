"""Notes as people keep them in folders: Obsidian vaults and plain Markdown."""
