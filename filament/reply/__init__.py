"""Reads a model's reply: XML with JSON in it, whatever its shape and however it is cut into chunks, without losing a
character.

Bottom up: `values` holds the result; `tags` finds tags, `text` buffers the text, `brackets` and `json_body` find the
end of JSON and repair it; `quoting`, `outline` and `echo` decide which updates count; `parser_state` holds one parse,
`blocks` and `reader` decide what tags mean; `stream` is the entry point. The public names are those of `filament`
itself.
"""
