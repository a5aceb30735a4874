"""Activates world info by SillyTavern's rules: finds the entries of lore that a chat activates, their places and the
reasons.

World info is lore with keys. An entry is activated when a key occurs in the newest messages, and its text then enters the
prompt.
"""
