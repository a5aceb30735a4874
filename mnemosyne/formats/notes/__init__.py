"""Reads folders of notes: Obsidian vaults and plain Markdown files."""
