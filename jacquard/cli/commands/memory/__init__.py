"""Commands on memory: make it from turns and files, edit it by hand, erase it, and edit the lore of worlds."""
