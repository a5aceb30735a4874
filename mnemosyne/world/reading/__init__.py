"""Reading a pack: files, Markdown lore, and the draft of parsed parts."""
