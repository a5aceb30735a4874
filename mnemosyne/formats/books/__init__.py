"""Books of lore."""
