"""State that a model is shown and may change: conventions, the author's rules, ops and the verdicts on them.

Bottom up: `pointer` is JSON Pointer; `conventions` defines VWD, `id`, `_anchor` and `$meta`; `rules` computes the
`$meta` in force for each mapping; `anchors` names things and `display` shows the tree; `places` finds the target of an
op, `descriptions` keeps descriptions in step with their values. In `changes`, `ops` is the typed op and its spellings,
`patch` applies JSON Patch, `guards`, `sizes` and `new_values` check values, `moves` turns one op into a patch, and
`judge` does so for a turn, all or nothing, with a verdict (`verdicts`) on each op. Import the public names from
`filament`.
"""
