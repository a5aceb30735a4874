"""Reads a model's reply: XML with JSON in it, in any shape and any chunks, without losing a character.

Bottom up: `values` holds the result; `tags` finds tags, `text` buffers the text, `brackets` and `json_body` find the
end of JSON and repair it; `quoting`, `outline` and `echo` decide which updates count; `parser_state` holds one parse,
`blocks` and `reader` decide what tags mean; `stream` is the entry point. Import the public names from `filament`.
"""
