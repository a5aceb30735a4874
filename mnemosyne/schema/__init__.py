"""Defines the values that the packages store and exchange: sessions, turns, memories, evidence, worlds and requests.

The values are frozen dataclasses and enums. They know nothing of storage, codecs or prompts. Many classes have a field
`extra` for JSON fields that the schema does not know. Times are datetimes with a time zone.

Terms that the modules share:

- A *turn* is one input of the user with the reply to it. It is committed when its reply is stored.
- A *branch* is a line of turns. A session is a tree of turns, and one of its branches is the active branch.
- The *head* of a branch is its newest committed turn. The *lineage* lists the parts of branches that lead to the head.
- *Ops* are changes of the state, which is the tree of values in a session.
- A *memory entry* is a text that recall can find. Its *scope* is one session or one world. Its *chain* is its kind of
  memory, such as lore, events or narratives.
- *Evidence* is a citable text with its source. A *context block* is a unit of a prompt.
- A *viewer* is a character or person who may know only some of the texts.
- A *receipt* states why each block is in a prompt.
"""
