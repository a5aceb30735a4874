"""Files of other programs in and out of a store: cards, books, chats and memories become worlds and sessions, and go out again."""
