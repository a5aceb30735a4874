"""Worlds from files of other programs: cards and books become the files of a pack, and the books can be taken out of it again."""
