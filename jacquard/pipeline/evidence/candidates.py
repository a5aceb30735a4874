"""Chooses the evidence that a prompt shows, and records every choice for the receipt.

Evidence is a stored text with its source, such as the result of a tool. This module only reads the session and must not import
a concrete store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from jacquard.config.sections import EvidenceConfig
from jacquard.core.blocks import Sensitivity, is_too_sensitive
from jacquard.core.receipt import CandidateDecision, LeftOut
from jacquard.pipeline.turn import Turn
from mnemosyne.chains.uris import evidence_uri
from mnemosyne.core.off_loop import calculate
from mnemosyne.evidence.conflicts import ConflictResolution, resolve_conflicts
from mnemosyne.evidence.documents import is_document
from mnemosyne.evidence.relevance import RankedEvidence, rank_evidence
from mnemosyne.evidence.rules import is_expired
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.evidence import Evidence, EvidenceType
from mnemosyne.schema.ingest import ConflictPolicy
from mnemosyne.schema.query import EvidenceFilter, Signals
from mnemosyne.schema.session import Role
from mnemosyne.values import dataclass

CHAIN = "evidence"
_FOUND = frozenset({EvidenceType.TOOL_RESULT, EvidenceType.SKILL_OUTPUT, EvidenceType.USER_INPUT, EvidenceType.OTHER})
_SEARCHED = frozenset({EvidenceType.RAG_DOC})
LOOKED_THROUGH = 500
"""Maximum number of the newest tool results, and of the newest search results, that a turn reads."""


def candidate_filters(viewer: str | None) -> tuple[EvidenceFilter, ...]:
    """Return two filters for the evidence that a turn reads: newest tool results and inputs, and newest search results.

    Both filters find only evidence of the active branch that `viewer` may know (None: evidence that everybody may
    know). They find no recalled memories.
    """
    known_to = frozenset(() if viewer is None else (viewer,))
    return tuple(
        EvidenceFilter(
            types=types, without_memories=True, limit=LOOKED_THROUGH, newest=True, branch_id="", known_to=known_to
        )
        for types in (_FOUND, _SEARCHED)
    )


_COMPARED = 96
"""Number of the best candidates that are compared for contradictions."""

_LISTED = 50
"""Maximum number of omitted candidates that have their own line in the receipt. All further omitted candidates share
one line.
"""

_KEYWORD_WEIGHT = 0.5
_RECENT_WEIGHT = 0.3
_RECENT_MESSAGES = 2
_PREVIEW_CHARS = 160


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceQuery:
    """Query for evidence.

    `terms` maps each word of the turn to its weight. `since` is the time of the last reply (None: there is no reply).
    """

    terms: Mapping[str, float]
    since: datetime | None = None


NO_QUERY = EvidenceQuery(terms={})


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceChoice:
    """Evidence to show, the contradictions between candidates, and the lines of the receipt."""

    chosen: tuple[Evidence, ...]
    """Items to show. If all candidates are shown, the oldest item comes first; otherwise the best item comes last."""
    settled: ConflictResolution
    """Contradictions between the best candidates, and how they were settled."""
    decisions: tuple[CandidateDecision, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    newest: str = ""
    """Ids of the newest candidates as one text (`mark_newest`)."""


def newest_texts(turn: Turn) -> tuple[str, ...]:
    """Return the texts of the newest messages in the history. Their words are searched in addition to the words of the
    input.
    """
    return tuple(placed.message.content for placed in (turn.shown)[-_RECENT_MESSAGES:])


def evidence_query(turn: Turn) -> EvidenceQuery:
    """Return the query for the evidence of a turn: the words of the input, the plan's keywords and `newest_texts`."""
    terms: dict[str, float] = {}
    for weight, texts in (
        (1.0, (turn.text,)),
        (_KEYWORD_WEIGHT, turn.plan.search_intent.focus_keywords),
        (_RECENT_WEIGHT, newest_texts(turn)),
    ):
        for word in {word for text in texts for word in word_tokens(text)}:
            terms[word] = max(terms.get(word, 0.0), weight)
    replies = [placed.message.at for placed in turn.window.messages if placed.message.role is Role.ASSISTANT]
    return EvidenceQuery(terms=terms, since=replies[-1] if replies else None)


async def choose_evidence(
    session_id: str,
    listed: Sequence[Sequence[Evidence]],
    config: EvidenceConfig,
    query: EvidenceQuery,
    now: datetime,
    most: str = Sensitivity.SECRET,
) -> EvidenceChoice:
    """Return the evidence to show, at most `config.limit` items, with the decision about every candidate.

    `listed` contains the evidence that each of `candidate_filters` found: results of tools, skills and searches, user
    inputs and others. Documents in `listed` are skipped, because recall finds their passages. For an item that is more
    sensitive than `most`, the receipt shows no text and no title, and does not state whether the item contradicts
    another one. Items that have expired at `now` are left out.
    """
    unread = any(len(each) == LOOKED_THROUGH for each in listed)
    found = [each for group in listed for each in group if not is_document(each)]
    expired = [each for each in found if is_expired(each, now)]
    live = [each for each in found if not is_expired(each, now)]
    size = sum(len(each.content) for each in live)
    live = _in_order(live)
    ranked = await calculate(rank_evidence, live, query.terms, query.since, size=size)
    told = [each.evidence for each in ranked[:_COMPARED] if not is_too_sensitive(each.evidence.metadata, most)]
    compared = _in_order(told, live) if told else []
    settled = await calculate(resolve_conflicts, compared, ConflictPolicy(config.conflict_policy), size=size)
    fitting = [each for each in ranked if each.is_fresh or each.score >= config.relevance_floor]
    best = [each for each in fitting if each.evidence.evidence_id not in settled.left_out][: max(config.limit, 0)]
    shown = {each.evidence.evidence_id for each in best}
    everything = len(best) == len(live)
    chosen = (
        [each for each in live if each.evidence_id in shown] if everything else [each.evidence for each in best][::-1]
    )
    decisions, rest = _decide(session_id, ranked, shown, settled, expired, config.relevance_floor)
    guarded = {each.evidence_id for each in found if is_too_sensitive(each.metadata, most)}
    decisions = tuple(
        replace(each, title=each.kind, preview="") if each.entry_id in guarded else each for each in decisions
    )
    return EvidenceChoice(
        chosen=tuple(chosen),
        settled=settled,
        decisions=decisions,
        left_out=(*rest, *((_NOT_READ,) if unread else ())),
        newest=mark_newest(listed),
    )


def mark_newest(listed: Sequence[Sequence[Evidence]]) -> str:
    """Return the ids of the newest candidates in `listed` as one text.

    This text changes when the session gets a newer candidate. `listed` contains one group of evidence for each of
    `candidate_filters`.
    """
    newest = (next((each.evidence_id for each in reversed(group) if not is_document(each)), "") for group in listed)
    return " ".join(newest).strip()


_NOT_READ = LeftOut(
    what=CHAIN,
    code="not_searched",
    reason=f"Only the newest {LOOKED_THROUGH:,} results and the newest {LOOKED_THROUGH:,} pages are candidates.",
)


def _in_order(evidences: Sequence[Evidence], order: Sequence[Evidence] = ()) -> list[Evidence]:
    """Return items oldest first: by an order, else by the time of storing, if both have one."""
    if order:
        wanted = {each.evidence_id for each in evidences}
        return [each for each in order if each.evidence_id in wanted]
    if any(each.created_at is None for each in evidences):
        return list(evidences)
    return sorted(evidences, key=lambda each: each.created_at)  # type: ignore[arg-type, return-value]


def _decide(
    session_id: str,
    ranked: Sequence[RankedEvidence],
    shown: set[str],
    settled: ConflictResolution,
    expired: Sequence[Evidence],
    floor: float,
) -> tuple[tuple[CandidateDecision, ...], tuple[LeftOut, ...]]:
    """Return a decision on every candidate, best first, expired ones last; many omitted ones share one line."""
    made: list[CandidateDecision] = []
    unlisted = 0
    for rank, each in enumerate(ranked, start=1):
        name = each.evidence.evidence_id
        if name in shown:
            why = "It came after the last reply." if each.is_fresh else "It is among the best by its words and its age."
            code, reason = "selected", why
        elif name in settled.left_out:
            code, reason = "contradicted", settled.left_out[name]
        elif not each.is_fresh and each.score < floor:
            code = "below_floor"
            below = f"its score of {each.score:.2f} is below the {floor:.2f} of evidence.relevance_floor"
            reason = f"Rank {rank} of {len(ranked)}: {below}."
        else:
            code = "below_cut"
            reason = f"Rank {rank} of {len(ranked)}: evidence.limit leaves room for {len(shown)}."
        if code in ("below_cut", "below_floor") and rank - len(shown) > _LISTED:
            unlisted += 1
        else:
            made.append(_decision(session_id, each, rank, code, reason))
    for gone in expired[-_LISTED:]:
        ended = f"{gone.expires_at:%Y-%m-%d %H:%M}" if gone.expires_at is not None else "?"
        late = RankedEvidence(evidence=gone, score=0.0, signals=Signals())
        made.append(_decision(session_id, late, len(made) + 1, "expired", f"It was valid until {ended}."))
    rest = []
    if unlisted:
        reason = f"{unlisted} more results are less relevant than those listed."
        rest.append(LeftOut(what=CHAIN, code="below_cut", reason=reason, count=unlisted))
    if len(expired) > _LISTED:
        number = len(expired) - _LISTED
        rest.append(LeftOut(what=CHAIN, code="expired", reason=f"{number} older results have expired.", count=number))
    return tuple(made), tuple(rest)


def _decision(session_id: str, each: RankedEvidence, rank: int, code: str, reason: str) -> CandidateDecision:
    evidence = each.evidence
    return CandidateDecision(
        entry_id=evidence.evidence_id,
        chain=CHAIN,
        kind=evidence.type.value,
        title=evidence.source.name,
        rank=rank,
        score=round(each.score, 6),
        signals=each.signals,
        chosen=code == "selected",
        code=code,
        reason=reason,
        preview=evidence.content[:_PREVIEW_CHARS],
        trust=evidence.trust,
        uri=evidence_uri(session_id, evidence.evidence_id),
    )
