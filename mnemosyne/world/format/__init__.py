"""Defines the format of world packs: tables of all files and keys, and the checks that use them."""
