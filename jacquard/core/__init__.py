"""Defines the values, protocols and errors that all other folders of jacquard use.

Terms of jacquard:

- turn: one user message with its reply.
- block: one piece of a prompt, with an id; a message of the conversation is a block too.
- Stream A (skeleton): the part of a prompt made by fixed rules: state, quests, guidance, history.
- Stream B (curation): the memories that are recalled and selected for a turn. The selected memories are called flesh.
- candidate: a recalled memory before selection.
- lease: the use of one selection in several turns, without a model call, while the scene stays the same.
- weaving: merging the blocks of both streams into one prompt. A skein is the ordered blocks during weaving.
- receipt: the decision about every block and candidate of a prompt, with the reason.
- evidence: a stored text with its source, such as a tool result.
- world pack: the folder in which an author describes a world. Lore is the author's text about the world.
- world info: lore from a book of another program (SillyTavern). Keywords or relevance bring world info into a prompt.
"""
