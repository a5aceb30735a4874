"""Codec, errors, limits and counting, used by all of mnemosyne."""
