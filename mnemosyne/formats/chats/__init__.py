"""Reads chats of other programs as turns, and writes chats for SillyTavern.

A turn is a message of the user with the replies to it. If the user had several replies to choose from, the others are
kept too.
"""
