"""Writes the results of models and hosts: replies (complete or in chunks), branches, imported chats, and repairs of the
state.
"""
