"""The state that a model is shown and may change: its conventions, the author's rules, ops and what becomes of them.

Bottom up: `pointer` and `patch` are JSON Pointer and JSON Patch (the one player of patches); `conventions` says what a VWD,
an `id`, an `_anchor` and `$meta` are; `rules` what `$meta` rules for each mapping; `anchors` names things and `display`
shows the tree; `ops` is the typed op and its spellings; `places` finds where it points; `guards`, `descriptions` and
`settling` say what may stand there; `moves` turns one op into a patch; `judge` does so for a turn, all or nothing, and
gives a verdict (`verdicts`) on each op. The names for use are those of `filament` itself.
"""
