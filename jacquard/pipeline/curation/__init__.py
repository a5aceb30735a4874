"""Runs Stream B of a turn: recalls memories, selects a few of them, and renders the selection as prompt blocks.

- candidate: a recalled memory before selection, with its scores.
- selector: chooses among the candidates with a small model (`FlashSelector`), a reranker, or rules
  (`HeuristicSelector`).
- fallback: the heuristic (rules without a model). It chooses if no model is configured, or if the selector fails or is
  late.
- late result: a selection that came after its turn had gone on without it; the next turn can use it.
- lease: the use of one selection in later turns, without a model call, while the scene stays the same.
"""
