"""Runs Stream B of a turn: recalls memories, selects among them, and reports every decision for the receipt.

This module has no time limits; the module `deadline` sets them. This module must not import a store, or a concrete
retriever or selector.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field, replace
from itertools import chain, count
from time import perf_counter
from types import MappingProxyType

from jacquard.core.degradations import DegradationCode
from jacquard.core.errors import SelectorError
from jacquard.core.plan import PlanContext
from jacquard.core.protocols import Selection, SelectionContext, SelectionRequest, Selector
from jacquard.core.receipt import BY_HEURISTIC, CandidateDecision, CurationPath, LeftOut, StreamBReport
from jacquard.pipeline.curation.lease import Lease, renew_choice
from jacquard.pipeline.curation.selectors.excerpt import measure_width
from jacquard.pipeline.truncation import truncate_sentences
from mnemosyne.chains.story_facts import Validity
from mnemosyne.chains.uris import entry_uri
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.protocols import EntrySource, Retriever, overlay_of
from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.memory import EMPTY, Chain, MemoryEntry, Trust
from mnemosyne.schema.query import Candidate, EntryPlace, Recall, RetrievalQuery
from mnemosyne.values import dataclass

_log = open_log(__name__)
_NOTHING_RECALLED = Recall(candidates=())
_NOTHING_CHOSEN = Selection(entry_ids=())
RATIONALE_CHARS = 200
"""Maximum length of a selector's rationale, in Latin characters; Chinese needs a third of them."""
_LATE = frozenset({"timeout", "selector_timeout", "deadline"})
_MENDED = {
    "unknown_ids": "{} unknown ids left out",
    "duplicates": "{} repeated ids left out",
    "over_limit": "{} ids over the limit left out",
    "repaired": "its JSON mended",
    "prose": "text around the list ignored",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class CurationRequest:
    """Input of Stream B for one turn."""

    query: RetrievalQuery
    user_message: str
    recent: tuple[str, ...]
    """Newest messages, oldest first, as `name: text`."""
    plan: PlanContext
    select_limit: int = 6
    fallback_limit: int = 6
    relevance_floor: float = 0.0
    """Minimum probability of relevance (0..1) of a memory that the fallback chooses."""
    locale: str = ""
    lease: Lease | None = None
    """Earlier selection that may be used again (None: there is none)."""
    names: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """Role -> name of the party, for the speakers of messages."""

    @property
    def is_overview(self) -> bool:
        """True if the input asks for an overview, for which no selector is called."""
        return self.plan.search_intent.overview is not None

    def selection(self, recall: Recall, limit: int) -> SelectionRequest:
        """Return the input of a selector for the candidates of `recall`; each candidate gets a unique id."""
        return SelectionRequest(
            user_message=self.user_message,
            recent=self.recent,
            plan=self.plan,
            candidates=tuple(map(self._shown_candidate, recall.candidates)),
            limit=limit,
            locale=self.locale,
            searched_text=self.query.text,
            relevance_floor=self.relevance_floor,
        )

    def _shown_candidate(self, candidate: Candidate) -> Candidate:
        """Return a candidate as the selector sees it: with its own id, and a message with its speaker's name."""
        title = candidate.title
        if candidate.chain is Chain.HISTORY:
            title = self.names.get(title, title)
        if candidate.name == candidate.entry_id and title == candidate.title:
            return candidate
        return replace(candidate, entry_id=candidate.name, title=title)


@dataclass(frozen=True, kw_only=True, slots=True)
class Curation:
    """Result of Stream B for a turn."""

    path: CurationPath
    code: str
    """Short code of the reason for `path`, for machines."""
    reason: str
    """Sentence that states the reason for `path`, for people."""
    recall: Recall = _NOTHING_RECALLED
    selection: Selection = _NOTHING_CHOSEN
    timings_ms: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Milliseconds of the steps `recall` and `select`; a step that was not done has no entry."""
    prefetch_refused: str = ""
    """Reason why the late result of an earlier turn was not used ('': it was used, or there was none)."""
    lease_refused: str = ""
    """Reason why an earlier selection was not used again ('': it was used, or there was none)."""
    chosen_for: str = ""
    """Id of the earlier turn for which the selection was made ('': this turn)."""
    entries: tuple[MemoryEntry, ...] = ()
    """Complete entries of the selection, in the order of choice. An entry that is gone or may not be known is left out."""
    story_times: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """Turn id -> time in the story, in worlds that state it."""
    validity: Mapping[EntryPlace, Validity] = field(default_factory=dict)
    """Turns in which a selected memory is valid, for memories that ended or superseded another one."""
    left_out: tuple[LeftOut, ...] = ()
    """Memories that the selected ones superseded."""
    evidences: tuple[Evidence, ...] = ()
    """Evidence that the session already has under the ids or addresses of the selected entries."""

    @classmethod
    def skipped(cls, code: str, reason: str, recall: Recall = _NOTHING_RECALLED) -> Curation:
        """Return a result without a selection (path SKIPPED)."""
        return cls(path=CurationPath.SKIPPED, code=code, reason=reason, recall=recall)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Recalled candidates, best first."""
        return self.recall.candidates

    @property
    def chosen(self) -> tuple[Candidate, ...]:
        """Chosen candidates, in the order of choice."""
        by_name = {candidate.name: candidate for candidate in self.recall.candidates}
        return tuple(by_name[name] for name in self.selection.entry_ids if name in by_name)

    @property
    def degradations(self) -> tuple[str, ...]:
        """Degradations of Stream B, each as a code or as `code: detail`."""
        failure = self._failure
        failed = () if failure is None else (f"{failure}: {self.reason}",)
        lost = (DegradationCode.EVIDENCE_NOT_FOUND,) if len(self.entries) < len(self.chosen) else ()
        return (*self.recall.degradations, *failed, *lost)

    @property
    def _failure(self) -> DegradationCode | None:
        """Return the degradation if recall or the configured selector failed or was late; None otherwise."""
        if self.path is CurationPath.FALLBACK:
            return DegradationCode.SELECTION_LATE if self.code in _LATE else DegradationCode.SELECTION_FAILED
        if self.path is CurationPath.TIMEOUT:
            return DegradationCode.RECALL_LATE
        is_broken = self.path is CurationPath.SKIPPED and self.code == "internal"
        return DegradationCode.RECALL_FAILED if is_broken else None

    @property
    def model(self) -> str | None:
        """Model that chose; None for the heuristic."""
        return self.selection.model


class CurationStream:
    """Recalls memories and selects among them. Without a selector, or if the selector cannot choose, `fallback` chooses."""

    def __init__(self, retriever: Retriever, selector: Selector | None, fallback: Selector) -> None:
        self._retriever = retriever
        self._selector = selector
        self._fallback = fallback

    @property
    def retriever(self) -> Retriever:
        """Retriever that recalls the memories."""
        return self._retriever

    @asynccontextmanager
    async def overlay(
        self, source: EntrySource, own_scopes: Callable[[], Collection[str]]
    ) -> AsyncIterator[CurationStream]:
        """Yield a stream that recalls the scopes `own_scopes()` (sessions and worlds) from `source` instead of the index.

        At the end of the block nothing of these scopes is left.
        """
        async with overlay_of(self._retriever, source, own_scopes) as retriever:
            yield CurationStream(retriever, self._selector, self._fallback)

    async def curate(
        self,
        request: CurationRequest,
        on_recall: Callable[[Recall], None] | None = None,
        context: SelectionContext | None = None,
    ) -> Curation:
        """Return the result of Stream B for one turn.

        `on_recall` is called with the recalled candidates before the selection begins. `context` is passed to the
        selector. Errors of the retriever are raised. If the selector fails in any way, the fallback chooses instead.
        """
        started = perf_counter()
        recall = make_entry_ids_unique(await self._retriever.recall(request.query))
        recalled = perf_counter()
        timings = {"recall": (recalled - started) * 1000}
        if on_recall is not None:
            on_recall(recall)
        if not recall.candidates:
            skipped = Curation.skipped("nothing_recalled", "Recall found nothing to choose from.", recall)
            return replace(skipped, timings_ms=timings)
        curation = await self._choose(request, recall, context)
        timings["select"] = (perf_counter() - recalled) * 1000
        return replace(curation, timings_ms=timings)

    async def fall_back(self, request: CurationRequest, recall: Recall, code: str, reason: str) -> Curation:
        """Return the fallback's choice among the candidates of `recall`.

        `code` and `reason` state why the selector did not choose. If the input asks for an overview, or if no selector
        is configured, the result states this as the reason instead.
        """
        path = CurationPath.FALLBACK
        if request.is_overview:
            path, code = CurationPath.HEURISTIC, "overview"
            reason = "an overview is spread over time by the rules"
        elif self._selector is None:
            path, code, reason = CurationPath.HEURISTIC, "no_model", "no selector model is configured"
        selection = await self._fallback.select(request.selection(recall, request.fallback_limit))
        selection = pair_questions(selection, recall.candidates, request.fallback_limit)
        chose = f"The {self._fallback.name} chose {len(selection.entry_ids)} of {len(recall.candidates)}: {reason}."
        return Curation(path=path, code=code, reason=chose, recall=recall, selection=selection)

    async def _choose(self, request: CurationRequest, recall: Recall, context: SelectionContext | None) -> Curation:
        if request.lease is None:
            return await self._ask(request, recall, context)
        selection, why = renew_choice(request.lease, recall, request.select_limit)
        if selection is None:
            return replace(await self._ask(request, recall, context), lease_refused=why)
        return Curation(
            path=CurationPath.LEASED,
            code="leased",
            reason=why,
            recall=recall,
            selection=selection,
            chosen_for=request.lease.turn_id,
        )

    async def _ask(self, request: CurationRequest, recall: Recall, context: SelectionContext | None) -> Curation:
        if self._selector is None or request.is_overview:
            return await self.fall_back(request, recall, "no_model", "")
        try:
            selection = await self._selector.select(request.selection(recall, request.select_limit), context)
        except SelectorError as error:
            chosen = await self.fall_back(request, recall, error.code, error.detail.rstrip("."))
            counts = {**chosen.selection.counts, **error.counts}
            return replace(chosen, selection=replace(chosen.selection, counts=counts))
        except Exception as error:
            _log.exception("selector %s broke", self._selector.name)
            reason = f"the selector {self._selector.name} broke off ({type(error).__name__}: {error})"
            return await self.fall_back(request, recall, "internal", reason)
        selection = replace(selection, rationale=shorten_rationale(selection.rationale))
        selection = pair_questions(selection, recall.candidates, request.select_limit)
        return Curation(
            path=CurationPath.SELECTED,
            code="selected",
            reason=_selected_reason(selection, len(recall.candidates), self._selector.name),
            recall=recall,
            selection=selection,
        )


def shorten_rationale(text: str) -> str:
    """Return a selector's reason for its choice on one line: its first sentences, at most RATIONALE_CHARS long. If the first
    sentence is longer, it is cut after a word.
    """
    return truncate_sentences(" ".join(text.split()), RATIONALE_CHARS, measure_width)


def make_entry_ids_unique(recall: Recall) -> Recall:
    """Return `recall` with a unique name for every candidate.

    If candidates of different scopes (sessions and worlds) have the same id, the best candidate keeps the id as its
    name, and each other candidate gets its address as its name. Ids that differ only in surrounding blanks count as
    equal, because a model confuses them.
    """
    taken = {candidate.entry_id for candidate in recall.candidates}
    owners: dict[str, EntryPlace] = {}
    told: list[Candidate] = []
    for each in recall.candidates:
        if owners.setdefault(each.entry_id.strip(), each.place) != each.place:
            address = entry_uri(each)
            names = chain((address,), (f"{address}#{number}" for number in count(2)))
            each = replace(each, alias=next(name for name in names if name not in taken))
            taken.add(each.alias)
        told.append(each)
    return replace(recall, candidates=tuple(told)) if any(each.alias for each in told) else recall


def build_stream_report(curation: Curation) -> StreamBReport:
    """Return the part of the receipt about Stream B, with one decision for every candidate, in the order of recall."""
    return StreamBReport(
        path=curation.path,
        code=curation.code,
        reason=curation.reason,
        model=curation.model,
        candidates=tuple(
            _decision(candidate, rank, curation) for rank, candidate in enumerate(curation.candidates, start=1)
        ),
        selected=curation.selection.entry_ids,
        queries=curation.recall.queries,
        rationale=curation.selection.rationale,
        counts=dict(curation.selection.counts),
        prefetch_refused=curation.prefetch_refused,
        lease_refused=curation.lease_refused,
        chosen_for=curation.chosen_for,
        relevance_floor=curation.selection.floor,
    )


def _selected_reason(selection: Selection, recalled: int, name: str) -> str:
    who = selection.model or name
    if not selection.entry_ids:
        return f"{who} looked at {recalled} candidates and chose none of them."
    mended = [text.format(selection.counts[key]) for key, text in _MENDED.items() if selection.counts.get(key)]
    return f"{who} chose {len(selection.entry_ids)} of {recalled}{''.join(f'; {one}' for one in mended)}."


def _decision(candidate: Candidate, rank: int, curation: Curation) -> CandidateDecision:
    code, reason = _verdict(candidate.name, rank, curation)
    return CandidateDecision(
        entry_id=candidate.name,
        uri=entry_uri(candidate),
        chain=str(candidate.chain),
        kind=candidate.kind,
        title=candidate.title,
        rank=rank,
        score=candidate.score,
        signals=candidate.signals,
        chosen=code == "selected",
        code=code,
        reason=reason,
        preview=candidate.preview,
        turn_id=candidate.turn_id,
        trust=candidate.trust,
    )


def _verdict(name: str, rank: int, curation: Curation) -> tuple[str, str]:
    """Return (code, sentence) for one candidate."""
    selection, path = curation.selection, curation.path
    who = curation.model or ("The selector" if path is CurationPath.SELECTED else "The heuristic")
    if name in selection.entry_ids:
        place = selection.entry_ids.index(name) + 1
        if path is CurationPath.PREFETCHED:
            return "selected", f"Chosen {_ordinal(place)} for the turn before; the scene still matches."
        if path is CurationPath.LEASED:
            return "selected", f"Chosen {_ordinal(place)} for turn {curation.chosen_for}; the scene still holds."
        why = selection.why.get(name)
        return "selected", f"{who} chose it {_ordinal(place)}: {why}" if why else f"{who} chose it {_ordinal(place)}."
    if name in selection.folded:
        return "folded", f"It says nearly the same as {selection.folded[name]}, which stands for it."
    if name in selection.over_tokens:
        return "over_tokens", f"{who} chose it, but the memories would take more tokens with it than they may."
    if name in selection.below_floor:
        share, floor = selection.below_floor[name], selection.floor or 0.0
        return (
            "below_floor",
            f"Recall rank {rank}: relevant at {share:.0%} by the rules, below the floor of {floor:.0%}.",
        )
    if name in selection.of_full_turn:
        return "turn_full", f"Recall rank {rank}: its turn has as many memories among the chosen as a turn may have."
    if name in selection.unanswered:
        return "unanswered", f"Recall rank {rank}: it only asks, and nothing else of its turn was recalled."
    if path is CurationPath.SELECTED:
        return "not_selected", f"{who} saw it (recall rank {rank}) and chose others."
    if path in BY_HEURISTIC:
        behind = f"; {selection.why[name]}" if name in selection.why else ""
        return "below_cut", f"Recall rank {rank}: the heuristic kept the best {len(selection.entry_ids)}{behind}."
    if path is CurationPath.LEASED:
        return "not_asked", f"Recall rank {rank}: nobody was asked, the choice of turn {curation.chosen_for} holds."
    return "not_asked", f"Recall rank {rank}: nobody was asked about it in time."


def _ordinal(place: int) -> str:
    return {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth"}.get(place, f"as number {place}")


_ENDS = ("?", "？", "吗", "呢")
_CLOSING = " \t\n\"'”’」』）)*_.。!！~～…"


def pair_questions(selection: Selection, candidates: Sequence[Candidate], limit: int) -> Selection:
    """Return `selection` with changes for chosen messages that are only a question of the player: an answer is placed
    after each of them.

    The answer is another one of `candidates` from the same turn; it is added to the selection if it was not chosen. A
    question whose turn has no other candidate is left out. If the result has more than `limit` entries, the last ones
    are removed.
    """
    known = {each.name: each for each in candidates}
    chosen: list[str] = []
    answers: dict[str, str] = {}
    unanswered: list[str] = []
    for name in selection.entry_ids:
        if name in chosen:
            continue
        question = known.get(name)
        if question is None or not _is_question(question):
            chosen.append(name)
            continue
        of_turn = [each.name for each in candidates if each.turn_id == question.turn_id and each is not question]
        answer = next((each for each in (*selection.entry_ids, *of_turn) if each in of_turn), None)
        if answer is None:
            unanswered.append(name)
            continue
        if answer not in selection.entry_ids:
            answers[answer] = f"it answers {name}"
        chosen += [name] if answer in chosen else [name, answer]
    if tuple(chosen) == selection.entry_ids:
        return selection
    kept = chosen[:limit]
    if len(chosen) > limit and kept and kept[-1] in known and _is_question(known[kept[-1]]):
        # An answer is more useful without its question than the question without its answer.
        kept[-1] = chosen[limit]
    return replace(
        selection,
        entry_ids=tuple(kept),
        why={**selection.why, **{name: why for name, why in answers.items() if name in kept}},
        unanswered=tuple(unanswered),
    )


def _is_question(candidate: Candidate) -> bool:
    """Return whether a candidate is only a player's question; a cut preview may contain more and does not count."""
    if candidate.chain is not Chain.HISTORY or candidate.trust is not Trust.USER or candidate.turn_id is None:
        return False
    return candidate.preview.rstrip(_CLOSING).endswith(_ENDS)
