"""Functions for the messages of a conversation: ids of messages, digests that identify messages, and contents that are not
text (images, tool calls).
"""
