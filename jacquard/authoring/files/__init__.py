"""Import and export of other programs' files: cards, books, chats and memories become worlds and sessions, and back."""
