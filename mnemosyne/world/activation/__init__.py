"""Activation of world info by the rules of SillyTavern: which entries of lore a chat sets off, where they stand, and why."""
