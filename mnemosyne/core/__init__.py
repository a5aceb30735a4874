"""Shared basis of mnemosyne: the codec (values to bytes and back), errors, limits for patterns and texts, and token
counts. Every other part of mnemosyne may import it.
"""
