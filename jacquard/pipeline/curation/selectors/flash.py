"""Selects memories with a small language model, which reads all candidates (recalled memories) and answers with ids.

The module works with any `LlmAdapter` and must not import one. Everything in the prompt except the rules is escaped and marked as
data, so that no lore, message or input can instruct the model. To save tokens, long previews are cut around the words of the
input, few tags are shown, and the answer is a list of ids with at most one sentence (`docs/decisions/0023-selection.md`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, zip_longest
from time import perf_counter

import anyio
from anyio import to_thread

from filament import escape_attribute, escape_text
from jacquard.adapters.prompts.templates import render_prompt
from jacquard.core.errors import ModelError, SelectorError
from jacquard.core.model_calls import Call, CallBook
from jacquard.core.protocols import (
    LlmAdapter,
    LlmRequest,
    LlmResponse,
    MessagePart,
    Selection,
    SelectionContext,
    SelectionRequest,
)
from jacquard.pipeline.curation.selection_parser import parse_selection
from jacquard.pipeline.curation.selectors.excerpt import excerpt
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.query import Candidate

RECENT_MESSAGES = 4
RECENT_CHARS = 240
INPUT_CHARS = 2000
PREVIEW_CHARS = 360
"""Maximum characters of a preview in Latin script; Chinese needs a third of them."""

TAGS = 3
TAGS_CHARS = 40
"""Maximum characters of the tags that a candidate shows."""
_IDS = "a JSON list of the selected ids, best first; [] if nothing fits"
_IDS_AND_RATIONALE = (
    'one JSON object: {"ids": [the selected ids, best first], "rationale": "why these, in one sentence of at most 20 words, '
    'in the language of <current_input>"}; {"ids": []} if nothing fits'
)


class FlashSelector:
    """Selects with a small model. The model sees each candidate once, and a failed call is not repeated.

    `timeout_seconds` limits a call. This limit may be longer than the time that a turn waits, because the next turn can
    use a late answer. `max_tokens` limits the answer. More than `batch_size` candidates are sent in several calls at
    the same time; the first choices of all calls come first in the result, then the second choices, and so on. If only
    some of the calls fail, `counts` states how many (`failed_batches`). If `rationale` is true, the model is asked for one
    sentence that states why; an answer without it is valid.
    """

    name = "flash"

    def __init__(
        self,
        llm: LlmAdapter,
        max_tokens: int = 400,
        timeout_seconds: float = 30.0,
        batch_size: int = 60,
        *,
        rationale: bool = True,
    ) -> None:
        self._llm = llm
        self._rationale = rationale
        self._max_tokens = max_tokens
        self._timeout_seconds = timeout_seconds
        self._batch_size = batch_size

    async def select(self, request: SelectionRequest, context: SelectionContext | None = None) -> Selection:
        """Return the selection that the model makes. `counts` of the selection contains the corrections of the model's
        answers and the tokens of the calls.

        Raises SelectorError with the code `timeout`, `model_error` or `unreadable` if every call failed. The error
        contains the tokens of these calls. `context` contains the book in which the calls are recorded (None: they are
        not recorded).
        """
        if not request.candidates:
            return Selection(entry_ids=())
        book = (context or SelectionContext()).calls
        pools = _batches(request.candidates, self._batch_size)
        if len(pools) == 1:
            return await self._ask(request, pools[0], book)
        found: dict[int, Selection] = {}
        failed: dict[int, SelectorError] = {}

        async def ask(place: int) -> None:
            try:
                found[place] = await self._ask(request, pools[place], book)
            except SelectorError as error:
                failed[place] = error

        async with anyio.create_task_group() as calls:
            for place in range(len(pools)):
                calls.start_soon(ask, place)
        spent = [*(choice.counts for choice in found.values()), *(error.counts for error in failed.values())]
        if not found:
            first = failed[0]
            raise SelectorError(first.code, first.detail, _sum_counts(spent))
        chosen = [found[place] for place in sorted(found)]
        return _join_selections(
            chosen, request.limit, {**_sum_counts(spent), "batches": len(pools), "failed_batches": len(failed)}
        )

    async def _ask(self, request: SelectionRequest, pool: Sequence[Candidate], book: CallBook) -> Selection:
        prompt = await to_thread.run_sync(partial(selector_prompt, request, pool, rationale=self._rationale))
        began = perf_counter()
        call = Call(model=self._llm.model, prompt="\n".join(text for _, text in prompt))
        place = book.begin(call)
        try:
            reply = await self._llm.generate(
                LlmRequest(messages=prompt, max_tokens=self._max_tokens, timeout_seconds=self._timeout_seconds)
            )
            call = _add_answer(call, reply)
            chosen = parse_selection(reply.content, [each.entry_id for each in pool], request.limit)
        except ModelError as error:
            book.end(place, _add_latency(call, began), str(error))
            raise SelectorError("timeout" if error.code == "timeout" else "model_error", error.detail) from error
        except SelectorError as error:
            book.end(place, _add_latency(call, began), str(error))
            raise SelectorError(error.code, error.detail, _token_counts(reply)) from error
        except BaseException as error:
            book.end(place, _add_latency(call, began), f"{type(error).__name__}: the call was broken off")
            raise
        book.end(place, _add_latency(call, began))
        return Selection(
            entry_ids=chosen.entry_ids,
            rationale=chosen.rationale,
            why=chosen.why,
            counts={**chosen.counts, **_token_counts(reply)},
            model=reply.model,
        )


def selector_prompt(
    request: SelectionRequest, pool: Sequence[Candidate] | None = None, *, rationale: bool = True
) -> tuple[MessagePart, ...]:
    """Return the messages of a call. The system message contains the rules. The user message contains the newest
    messages of the conversation, the input and the candidates.

    The candidates are `pool`, best first (None: all candidates of `request`). If `rationale` is true, the rules ask for
    one sentence that states why.
    """
    recent = "".join(f"{escape_text(_clip(line, RECENT_CHARS))}\n" for line in request.recent[-RECENT_MESSAGES:])
    history = f"<recent_history>\n{recent}</recent_history>\n" if recent else ""
    words = frozenset(
        chain(word_tokens(request.user_message), *map(word_tokens, request.plan.search_intent.focus_keywords))
    )
    shown = request.candidates if pool is None else pool
    items = "\n".join(_item(candidate, words) for candidate in shown)
    return render_prompt(
        "selector",
        request.locale,
        limit=request.limit,
        answer=_IDS_AND_RATIONALE if rationale else _IDS,
        recent_history=history,
        current_input=escape_text(_clip(request.user_message, INPUT_CHARS)),
        candidates=items,
    )


def _item(candidate: Candidate, words: frozenset[str]) -> str:
    turn = "" if candidate.depth is None else f' turn="{candidate.depth}"'
    title = " ".join(candidate.title.split())
    text = excerpt(candidate.preview, words, PREVIEW_CHARS)
    content = escape_text(text if not title or title in text else f"{title}: {text}")
    tags = _clip(", ".join(candidate.tags[:TAGS]), TAGS_CHARS)
    sorts = f' tags="{escape_attribute(tags)}"' if tags else ""
    name, chain_name = escape_attribute(candidate.entry_id), candidate.chain.value
    return f'<item id="{name}" chain="{chain_name}"{turn}{sorts}>{content}</item>'


def _batches(candidates: Sequence[Candidate], size: int) -> list[list[Candidate]]:
    """Distribute candidates so that each batch has its share of the best ones; every batch stays best first."""
    count = -(-len(candidates) // size)
    return [list(candidates[place::count]) for place in range(count)]


def _join_selections(chosen: Sequence[Selection], limit: int, counts: Mapping[str, int]) -> Selection:
    """Join selections: first all first choices, then all second choices, and so on."""
    dealt = zip_longest(*(choice.entry_ids for choice in chosen))
    entry_ids = tuple(one for rank in dealt for one in rank if one is not None)[:limit]
    why = {entry_id: text for choice in chosen for entry_id, text in choice.why.items() if entry_id in entry_ids}
    return Selection(
        entry_ids=entry_ids,
        rationale=next(
            (each.rationale for each in chosen if each.rationale and not set(each.entry_ids).isdisjoint(entry_ids)), ""
        ),
        why=why,
        counts={name: count for name, count in counts.items() if count},
        model=chosen[0].model,
    )


def _sum_counts(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {name: sum(one.get(name, 0) for one in counts) for name in dict.fromkeys(chain(*counts))}


def _clip(text: str, limit_chars: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit_chars else line[: limit_chars - 1] + "…"


def _add_answer(call: Call, reply: LlmResponse) -> Call:
    return replace(
        call,
        model=reply.model,
        answer=reply.content,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
    )


def _add_latency(call: Call, began: float) -> Call:
    return replace(call, latency_ms=(perf_counter() - began) * 1000)


def _token_counts(reply: LlmResponse) -> Mapping[str, int]:
    counts = {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens}
    return {name: count for name, count in counts.items() if count is not None}
