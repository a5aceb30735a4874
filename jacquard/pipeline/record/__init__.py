"""Builds and reads the stored record of a turn: the prompt, its receipt, its evidence, and the commit of the reply.

- receipt (`Report`): the decision about every block and memory of the prompt, with the reason.
- snapshot: all inputs of a prompt. From them the prompt can be made again.
- evidence: a stored text with its source, such as the result of a tool.
- context package: the material of one prompt in a form for other programs.
"""
