"""What a call of the Flash Selector costs in tokens, against the prompt that one would write first.

The same recalls are put into both: ours, and a JSON request that holds ids, scores and full texts of all candidates and asks for
ids. Nothing is called; answers are as long as a choice of five is. Tokens are those of an encoding of OpenAI's, counted offline.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from anyio import to_thread
from rich.console import Console
from rich.table import Table
from rich.text import Text

from evals.dataset import LabelledSet, read_set
from evals.reporting.figures import percentiles
from evals.reporting.machine import load, machine
from evals.running.run import Options, run_set
from jacquard import Selection, SelectionContext, SelectionRequest
from jacquard.pipeline.curation.selectors.flash import selector_prompt
from mnemosyne import TiktokenEstimator

Count = Callable[[str], int]
MESSAGE_TOKENS = 4
"""What a message costs beside its text."""


class _Listener:
    """A selector that keeps what it was asked and chooses nothing."""

    name = "listener"

    def __init__(self) -> None:
        self.heard: list[SelectionRequest] = []

    def for_query(self, relevant: Mapping[str, int]) -> _Listener:
        """Return itself, whatever is relevant."""
        return self

    async def select(self, request: SelectionRequest, context: SelectionContext | None = None) -> Selection:
        """Keep the request."""
        self.heard.append(request)
        return Selection(entry_ids=())


async def run(
    sets: Sequence[Path], sizes: Sequence[int], queries: int, say: Callable[[str], None], progress: Callable[..., None]
) -> dict[str, Any]:
    """Recall for some queries of each set and return the tokens of both prompts at each number of candidates."""
    count = (await to_thread.run_sync(TiktokenEstimator)).estimate
    found = []
    for folder in sets:
        say(f"recalling in {folder.name}")
        labelled = await to_thread.run_sync(read_set, folder)
        listener = _Listener()
        options = Options(embedder="none", recall_limit=max(sizes), limit=queries)
        await run_set(labelled, options, progress, nullcontext(listener.for_query))
        found.append({"set": labelled.name, "sizes": [_at(listener.heard, labelled, size, count) for size in sizes]})
    return {"encoding": "o200k_base", "sets": found, "queries": queries, "machine": machine(), "load": load()}


def _at(heard: Sequence[SelectionRequest], labelled: LabelledSet, size: int, count: Count) -> dict[str, Any]:
    texts = {document.document_id: document.text for document in labelled.corpus.documents}
    whole = [replace(request, candidates=request.candidates[:size]) for request in heard]
    whole = [request for request in whole if len(request.candidates) == size]
    rows = []
    for request in whole:
        ours = sum(count(text) + MESSAGE_TOKENS for _, text in selector_prompt(request))
        plain = sum(count(text) + MESSAGE_TOKENS for _, text in plain_prompt(request, texts))
        chosen = request.candidates[: request.limit]
        rows.append(
            {
                "prompt": ours,
                "plain_prompt": plain,
                "answer": count(json.dumps([one.entry_id for one in chosen], ensure_ascii=False)),
                "plain_answer": count(json.dumps({"selected_ids": [one.entry_id for one in chosen]})),
            }
        )
    figures = {name: percentiles([row[name] for row in rows], 50)[0] for name in (rows[0] if rows else ())}
    return {"candidates": size, "requests": len(rows), "rows": rows, **figures}


def plain_prompt(request: SelectionRequest, texts: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the request as one would write it first: JSON with every candidate's id, kind, scores and full text."""
    pool = [
        {
            "id": one.entry_id,
            "type": one.kind,
            "source": one.chain.value,
            "title": one.title,
            "content": texts.get(one.entry_id, one.preview),
            "metadata": {"score": round(one.score, 4), "turn": one.depth, "tags": list(one.tags)},
        }
        for one in request.candidates
    ]
    asked = {"recent_history": list(request.recent), "current_input": request.user_message, "candidate_pool": pool}
    rules = (
        "You are the Context Curator. Select the most relevant items of the candidate pool to help answer the current input, "
        f'at most {request.limit}. Return JSON: {{"selected_ids": [...]}}.'
    )
    return ("system", rules), ("user", json.dumps(asked, ensure_ascii=False))


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print the figures."""
    table = Table(
        title=f"tokens of a selector call (median; {figures['encoding']}, {figures['queries']} queries a set)",
        title_justify="left",
    )
    for name in ("set", "candidates", "requests", "ours", "plain JSON", "share", "answer", "plain answer"):
        table.add_column(name, justify="left" if name == "set" else "right")
    for each in figures["sets"]:
        for row in each["sizes"]:
            if row["requests"]:
                cells = [f"{row[name]:.0f}" for name in ("prompt", "plain_prompt")]
                share = f"{row['prompt'] / row['plain_prompt']:.0%}"
                answers = [f"{row[name]:.0f}" for name in ("answer", "plain_answer")]
                named = (each["set"], str(row["candidates"]), str(row["requests"]))
                table.add_row(*map(Text, (*named, *cells, share, *answers)))
    console.print(table)
