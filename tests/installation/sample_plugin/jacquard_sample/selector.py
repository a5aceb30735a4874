"""The selector `sample`: chooses the candidates that share a word with the input."""

from __future__ import annotations

from jacquard import LlmAdapter, Selection, SelectionContext, SelectionRequest
from mnemosyne.retrieval.text.words import word_tokens


class SharedWordsSelector:
    """A selector without a model."""

    name = "sample"

    def __init__(self, argument: str, *, model: LlmAdapter | None) -> None:
        self._least = int(argument or 1)

    async def select(self, request: SelectionRequest, context: SelectionContext | None = None) -> Selection:
        """Return the candidates with enough words of the input, best first."""
        asked = set(word_tokens(request.user_message))
        shared = {each.entry_id: asked & set(word_tokens(each.preview)) for each in request.candidates}
        chosen = [name for name, words in shared.items() if len(words) >= self._least][: request.limit]
        why = {name: f"shares {', '.join(sorted(shared[name]))}" for name in chosen}
        return Selection(entry_ids=tuple(chosen), why=why, rationale="sample: what shares a word with the input")
