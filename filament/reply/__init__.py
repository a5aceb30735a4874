"""Reads a model's reply: XML with JSON in it, in any shape and any chunks, without losing a character.

An update is one block of ops (changes of the state). From the lowest module to the entry point:

- `values` defines the result.
- `tags` finds tags; `text` buffers and cleans the text.
- `brackets` and `json_body` find the end of JSON and repair it.
- `quoting`, `outline` and `echo` decide which updates count.
- `parser_state` contains the state of one parse; `blocks` and `reader` decide what tags mean.
- `stream` is the entry point.

Import the public names from `filament`.
"""
