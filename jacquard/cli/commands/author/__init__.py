"""Commands for authors of worlds and templates."""
