"""What a model answers: XML with JSON in it, in any shape and any chunks, read without losing a character.

Bottom up: `values` is what comes out; `tags` finds tags, `text` keeps what was said, `brackets` and `json_body` follow and
mend JSON; `quoting`, `outline` and `echo` judge which updates count; `desk` holds one reading, `blocks` and `reader` decide
what its tags mean; `stream` is the door. The names for use are those of `filament` itself.
"""
