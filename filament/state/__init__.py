"""State that a model is shown and may change: its conventions, the author's rules, and the verdicts on ops.

An op is one change of the state. A VWD (value with description) is a pair `[value, "text"]`. The modules, from the
lowest to the highest:

- `pointer` reads and writes JSON Pointers.
- `conventions` defines VWD, `id`, `_anchor` and `$meta` (the author's rules for a mapping).
- `rules` computes which rules hold for each mapping.
- `anchors` gives things an `id`; `display` shows the tree to a model.
- `places` finds the target of an op; `descriptions` updates a description when its value changes.
- `changes.ops` defines the typed op and reads its spellings; `changes.patch` applies JSON Patch.
- `changes.guards`, `changes.fitting`, `changes.sizes` and `changes.new_values` check values.
- `changes.moves` turns one op into a JSON Patch. `changes.judge` judges the ops of a turn, all or nothing.
- `verdicts` defines the verdict on each op.

Import the public names from `filament`.
"""
