"""Pruners: each decides which blocks are kept, shortened or dropped."""
