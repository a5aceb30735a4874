"""The state that a model is shown and may change: its conventions, the author's rules, ops and the verdicts on them.

Bottom up: `pointer` is JSON Pointer; `conventions` says what a VWD, an `id`, an `_anchor` and `$meta` are; `rules`
computes the `$meta` in force for each mapping; `anchors` names things and `display` shows the tree; `places` finds
where an op points, `descriptions` keeps descriptions in step with their values. In `changes`, `ops` is the typed op and
its spellings, `patch` applies JSON Patch, `guards`, `sizes` and `new_values` say what a value may be, `moves` turns one
op into a patch, and `judge` does so for a turn, all or nothing, with a verdict (`verdicts`) on each op. The public
names are those of `filament` itself.
"""
