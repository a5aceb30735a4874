"""Activation of world info by the rules of SillyTavern: which entries of lore a chat activates, their places, and the
reasons.
"""
