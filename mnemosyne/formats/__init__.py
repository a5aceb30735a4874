"""Files of other programs: readers and writers of books of lore, character cards, chats, notes and memories, and of corpora."""
