"""Books of lore of other programs: readers into the fields of SillyTavern's world info, and writers."""
