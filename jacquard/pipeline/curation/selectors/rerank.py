"""Selects memories with a reranker: a local model that reads the input and a candidate together and scores how well they fit.

The module works with any `PairScorer` and must not import one. The candidates are scored in small batches, so that a
cancelled turn stops the work after the current batch. Time limits are set by `jacquard.pipeline.curation.deadline`.
"""

from __future__ import annotations

from jacquard.core.errors import ModelError, SelectorError
from jacquard.core.protocols import PairScorer, Selection, SelectionContext, SelectionRequest
from mnemosyne.schema.query import Candidate

LOT = 16


class RerankSelector:
    """Selects the candidates with the best scores. Equal scores keep the order of recall, so equal requests give equal results.

    `least` is the minimum score on the model's own scale (None: no minimum); candidates below it are left out. `why` of
    the selection contains the scores.
    """

    name = "rerank"

    def __init__(self, scorer: PairScorer, least: float | None = None) -> None:
        self._scorer = scorer
        self._least = least

    async def select(self, request: SelectionRequest, context: SelectionContext | None = None) -> Selection:
        """Return a selection of the best candidates of `request`, best first. `context` is not used.

        Raises SelectorError with the code `model_error` if the model cannot be loaded or fails.
        """
        if not request.candidates:
            return Selection(entry_ids=())
        texts = [_text(candidate) for candidate in request.candidates]
        scores: list[float] = []
        try:
            for start in range(0, len(texts), LOT):
                scores += await self._scorer.score(request.user_message, texts[start : start + LOT])
        except ModelError as error:
            raise SelectorError("model_error", error.detail) from error
        order = sorted(range(len(texts)), key=lambda place: -scores[place])
        if self._least is not None:
            order = [place for place in order if scores[place] >= self._least]
        chosen = order[: request.limit]
        ids = [request.candidates[place].entry_id for place in chosen]
        why = {entry_id: f"score {scores[place]:.4g}" for entry_id, place in zip(ids, chosen, strict=True)}
        return Selection(entry_ids=tuple(ids), why=why, model=self._scorer.model)


def _text(candidate: Candidate) -> str:
    title = candidate.title.strip()
    return candidate.preview if not title or title in candidate.preview else f"{title}: {candidate.preview}"
