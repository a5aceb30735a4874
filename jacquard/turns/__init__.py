"""The engine, and the steps of one turn from the user's input to the committed reply.

A turn is one user message with its reply. The prompt of a turn is made from two streams. Stream A renders the skeleton:
state, quests, guidance and history. Stream B recalls and selects memories. The results of both streams are joined
within one token budget; `jacquard.turns.engine` shows the order of the steps. Other words of the project are in
`docs/en/glossary.md`.
"""
