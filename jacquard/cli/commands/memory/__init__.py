"""Commands on memory: made from turns and files, edited by hand, and the lore of worlds."""
