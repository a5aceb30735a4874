"""Provides the built-in pruners, which decide which blocks of a prompt are kept, shortened or dropped."""
