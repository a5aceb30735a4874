"""Defines the format of world packs: tables of all files and keys, and the checks that use them.

A shape is the expected form of a value. A record is the shape of a mapping with known keys.
"""
