"""Makes one prompt from the blocks of both streams: orders the blocks, fits them into the token budget, and joins them.

- block: one piece of a prompt; a skein is the ordered blocks before they become messages.
- frame: our own text between blocks (tags), together with the overhead of messages.
- span: the place of a block in a message.
- prune: decide which blocks are kept, degraded (shortened, cut or masked) or dropped.
"""
