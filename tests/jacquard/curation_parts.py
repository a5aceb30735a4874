"""Candidates, plans and an honest in-memory retriever for the tests of Stream B."""

from __future__ import annotations

from collections.abc import Sequence

from jacquard import PlanContext, SelectionRequest
from jacquard.core.plan import SearchIntent, Triage
from jacquard.pipeline.curation.stream import CurationRequest
from mnemosyne import (
    Candidate,
    Chain,
    MemoryEntry,
    Recall,
    RetrievalQuery,
    Signals,
)
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.session import BranchSpan, SessionHead

ENTRIES = (
    MemoryEntry(
        entry_id="lore_key",
        scope="world:forest",
        chain=Chain.LORE,
        kind="encyclopedia",
        title="神庙钥匙",
        text="由翡翠雕成的古老钥匙,能开启森林神庙的石门。",
        tags=("location", "ancient"),
        entities=("temple_key",),
    ),
    MemoryEntry(
        entry_id="lore_wolf",
        scope="world:forest",
        chain=Chain.LORE,
        kind="agent",
        title="Grey Wolf",
        text="A grey wolf that guards the northern path.",
        entities=("wolf",),
    ),
    MemoryEntry(
        entry_id="p003.a",
        scope="session:s",
        chain=Chain.HISTORY,
        kind="message",
        title="村长",
        speaker="村长",
        text="那把钥匙是我祖父留下的,我不能随便给人。",
        turn_id="p003",
        branch_id="main",
        depth=3,
    ),
    MemoryEntry(
        entry_id="p003.summary",
        scope="session:s",
        chain=Chain.NARRATIVE,
        kind="turn_summary",
        text="村长拒绝交出神庙的钥匙。",
        turn_id="p003",
        branch_id="main",
        depth=3,
    ),
    MemoryEntry(
        entry_id="q_necklace",
        scope="session:s",
        chain=Chain.EVENT,
        kind="quest",
        title="The lost necklace",
        text="The necklace was found in the well and given back.",
        entities=("necklace",),
    ),
)


class ListRetriever:
    """Recalls from a list by common words; keeps the rules of the Retriever protocol."""

    def __init__(self, entries: Sequence[MemoryEntry] = ENTRIES) -> None:
        self._entries = {entry.entry_id: entry for entry in entries}

    async def recall(self, query: RetrievalQuery) -> Recall:
        wanted = set(word_tokens(" ".join((query.text, *query.keywords))))
        scored: list[tuple[float, MemoryEntry]] = []
        for entry in self._entries.values():
            here = entry.branch_id is None or any(
                span.branch_id == entry.branch_id and (entry.depth or 0) <= span.upto_depth for span in query.lineage
            )
            if here and entry.entry_id not in query.exclude:
                score = 0.01 + len(wanted & set(word_tokens(f"{entry.title} {entry.text}")))
                scored.append((score, entry))
        scored.sort(key=lambda pair: (-pair[0], pair[1].entry_id))
        found = tuple(as_candidate(entry, score) for score, entry in scored[: query.limit])
        return Recall(candidates=found, queries=(query.text,))


def as_candidate(entry: MemoryEntry, score: float = 1.0) -> Candidate:
    return Candidate(
        entry_id=entry.entry_id,
        scope=entry.scope,
        chain=entry.chain,
        kind=entry.kind,
        title=entry.title,
        preview=entry.text[:200],
        score=score,
        signals=Signals(fts=score, fused=score),
        tags=entry.tags,
        entities=entry.entities,
        depth=entry.depth,
        turn_id=entry.turn_id,
    )


def candidate(
    entry_id: str,
    preview: str = "A text of its own.",
    score: float = 1.0,
    *,
    chain: Chain = Chain.LORE,
    title: str = "",
    entities: tuple[str, ...] = (),
    depth: int | None = None,
    turn_id: str | None = None,
) -> Candidate:
    return Candidate(
        entry_id=entry_id,
        scope="world:forest",
        chain=chain,
        kind="encyclopedia",
        title=title,
        preview=preview,
        score=score,
        signals=Signals(fused=score),
        entities=entities,
        depth=depth,
        turn_id=turn_id,
    )


def plan(
    keywords: tuple[str, ...] = (), *, quest: str | None = "q_temple", entities: tuple[str, ...] = (), **weights: float
) -> PlanContext:
    intent = SearchIntent(enabled=True, focus_keywords=keywords)
    if weights:
        intent = SearchIntent(enabled=True, focus_keywords=keywords, domain_weight=weights)
    return PlanContext(
        triage=Triage.NARRATIVE,
        active_quest_id=quest,
        current_goal="Find the temple.",
        template_id="chat",
        search_intent=intent,
        entities=entities,
    )


def asked(
    *candidates: Candidate,
    limit: int = 5,
    plan_: PlanContext | None = None,
    text: str = "那把钥匙是不是开启神庙的?",
    relevance_floor: float = 0.0,
) -> SelectionRequest:
    return SelectionRequest(
        user_message=text,
        recent=("村长: 听说村里有一把钥匙。",),
        plan=plan_ or plan(),
        candidates=candidates,
        limit=limit,
        relevance_floor=relevance_floor,
    )


def turn(text: str = "那把钥匙是不是开启神庙的?我记得之前提到过。", *, limit: int = 50) -> CurationRequest:
    return CurationRequest(
        query=RetrievalQuery(
            text=text,
            world_id="forest",
            session_id="s",
            lineage=(BranchSpan(branch_id="main", upto_depth=9),),
            depth=9,
            limit=limit,
        ),
        user_message=text,
        recent=("村长: 听说村里有一把钥匙。",),
        plan=plan(("钥匙", "神庙")),
    )


def head(branch_id: str = "main", depth: int = 9, *others: BranchSpan) -> SessionHead:
    return SessionHead(
        session_id="s",
        world_id="forest",
        branch_id=branch_id,
        turn_id=f"t{depth}",
        depth=depth,
        lineage=(BranchSpan(branch_id=branch_id, upto_depth=depth), *others),
        version=1,
    )
