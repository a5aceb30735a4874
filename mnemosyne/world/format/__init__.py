"""The format of world packs: tables of files and keys, and the checks by them."""
