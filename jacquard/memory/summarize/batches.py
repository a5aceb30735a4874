"""Makes a rolling summary batch by batch, with one call of the summarizer for each batch. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from time import perf_counter
from typing import Any

import anyio

from filament.state.display import is_hidden_at
from jacquard.adapters.prompts.templates import find_text_language, warm_prompts
from jacquard.config.sections import RuntimeConfig
from jacquard.core.errors import SummarizerError
from jacquard.core.model_calls import Call, usage_of
from jacquard.core.protocols import ConversationTurn, Summarizer, SummaryRequest, SummaryText
from jacquard.core.quests import is_scalar, read_plain_value
from jacquard.memory.summarize.sentences import split_sentences
from jacquard.memory.summarize.span import CUT, THINNED, UPTO, Coverage, limit_summary, read_thinned
from jacquard.pipeline.worlds import WorldSource, name_of_speaker, party_names
from mnemosyne.chains.audience import (
    Audience,
    audience_field,
    audience_of_messages,
    join_audiences,
    read_audience,
    told_messages,
)
from mnemosyne.protocols import Clock, Store
from mnemosyne.schema.document import MessageIndexRange, ModelUsage, ModelUsageStage, Summary
from mnemosyne.schema.evidence import Evidence, EvidenceLinks, EvidenceSource, EvidenceType, SourceKind
from mnemosyne.schema.memory import LoreCategory, Trust, session_scope
from mnemosyne.schema.record import PathSummary, SessionWindow, TurnRecord
from mnemosyne.schema.session import Role, SessionHead, TurnKind
from mnemosyne.schema.world import WorldPack
from mnemosyne.values import dataclass

BATCH_TOKENS = 6000
"""Maximum number of tokens of the turns in one model call."""
_UNUSED = "The answer was too long, was cut off or had lost too much; the model was asked again."
PAGE_TURNS = 200
"""Maximum number of turns in one batch."""
MOST_PEOPLE = 12
"""Maximum number of lines on the entities that occur in a batch."""
CHANGE_CHARS = 60
MOST_CHANGES = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class RollingSummary:
    """New summary with its cost. If `summary` is None, no summary was made, and `failure` states the reason ('': there
    was nothing to summarize).
    """

    head: SessionHead
    summary: Summary | None
    usages: tuple[ModelUsage, ...] = ()
    evidences: tuple[Evidence, ...] = ()
    failure: str = ""

    @property
    def path_summary(self) -> PathSummary | None:
        """The summary together with the turn at the head when it was made. None if there is no summary or no turn."""
        head = self.head
        if self.summary is None or head.turn_id is None:
            return None
        return PathSummary(turn_id=head.turn_id, branch_id=head.branch_id, depth=head.depth, summary=self.summary)


class BatchSummarizer:
    """Summarizes turns up to a given depth. `is_local` is true if the summarizer calls no model; a batch then has no
    token limit.
    """

    def __init__(
        self,
        store: Store,
        worlds: WorldSource,
        count: Callable[[str], int],
        clock: Clock,
        summarizer: Summarizer,
        *,
        is_local: bool,
    ) -> None:
        self.name = summarizer.name
        self._worlds = worlds
        self._store, self._count, self._clock = store, count, clock
        self._summarizer, self._is_local = summarizer, is_local

    async def summarize(
        self, window: SessionWindow, coverage: Coverage, upto: int, config: RuntimeConfig
    ) -> RollingSummary:
        """Return the summary of the turns up to the depth `upto`, made batch by batch.

        The new summary continues the summary in `window`, which covers the turns in `coverage`. If a batch fails, the
        result contains the summary of the batches before the failed one.
        """
        head, at = window.head, self._clock.now()
        text = window.summary.summary.content if window.summary is not None else ""
        await warm_prompts()
        world = await self._worlds.world(head.world_id, write=False, digest=window.world_digest)
        parties = party_names(world)
        # The summary is in the language of the conversation.
        locale = find_text_language("".join(placed.message.content for placed in window.messages[-6:]))
        summary: Summary | None = None
        usages: list[ModelUsage] = []
        evidences: list[Evidence] = []
        failure, thinned, cut = "", read_thinned(window.summary), 0
        audience = read_audience(window.summary.summary.extra) if window.summary is not None else ()
        while coverage.depth < upto and not failure:
            turns = await self._select_batch(head, coverage, upto)
            if not turns:
                break
            told = await self._load_messages(window, turns, coverage, parties)
            if not any(turn.lines for turn in told):
                # Only actions and system messages: the summary covers them without new text.
                coverage = _extend_coverage(coverage, turns)
                summary = _summary_of(text, coverage, turns[-1].turn_id, at, {THINNED: thinned, CUT: cut}, audience)
                continue
            request = SummaryRequest(
                turns=told,
                previous=text,
                limit_tokens=limit_summary(config),
                locale=locale,
                player=parties.get(Role.USER.value, ""),
                narrator=parties.get(Role.ASSISTANT.value, ""),
                names=tuple(name for entity in world.entities for name in (entity.name, *entity.aliases)),
                background="" if self._is_local else describe_who_occurs(told, world),
            )
            began = perf_counter()
            try:
                with anyio.fail_after(config.summary.background_seconds):
                    answer = await self._summarizer.summarize(request)
            except (SummarizerError, TimeoutError) as error:
                failure = str(error) or f"The summary took longer than {config.summary.background_seconds:g} s."
                if not self._is_local:
                    calls = getattr(error, "calls", ()) or (Call(model=""),)
                    usages += self._usage_records(calls, head, began, len(usages), failure)
                break
            text, coverage = answer.content, _extend_coverage(coverage, turns)
            audience = join_audiences(
                (audience, *(audience_of_messages(told_messages(turn.messages)) for turn in turns))
            )
            thinned += answer.dropped_lines
            cut += 0 if self._is_local else answer.dropped_lines
            summary = _summary_of(text, coverage, turns[-1].turn_id, at, {THINNED: thinned, CUT: cut}, audience)
            if answer.model is not None:
                usages += self._usage_records(answer.unused_calls, head, began, len(usages), _UNUSED)
                usages += self._usage_records((answer.call(),), head, began, len(usages))
                evidences.append(_evidence(usages[-1].model_usage_id, answer, coverage, at, head.turn_id, audience))
        return RollingSummary(
            head=head,
            summary=summary,
            usages=tuple(usages),
            evidences=tuple(evidences),
            failure=failure or "Nothing new.",
        )

    async def _select_batch(self, head: SessionHead, coverage: Coverage, upto: int) -> list[TurnRecord]:
        """Return the next turns to summarize: as many as one call takes, at least one."""
        last = min(upto, coverage.depth + PAGE_TURNS)
        page = await self._store.turns(
            head.session_id, limit=last - coverage.depth, branch_id=head.branch_id, before_depth=last + 1
        )
        if self._is_local:
            return list(page)
        taken: list[TurnRecord] = []
        spent = 0
        for turn in page:
            spent += sum(self._count(message.content) for message in turn.messages)
            if taken and spent > BATCH_TOKENS:
                break
            taken.append(turn)
        return taken

    async def _load_messages(
        self, window: SessionWindow, turns: Sequence[TurnRecord], coverage: Coverage, parties: Mapping[str, str]
    ) -> tuple[ConversationTurn, ...]:
        ids = [f"{turn.turn_id}.summary" for turn in turns]
        scope = session_scope(window.head.session_id)
        gists = {entry.entry_id: entry.text for entry in await self._store.entries(scope, ids)}
        return tuple(
            ConversationTurn(
                turn_id=turn.turn_id,
                depth=turn.depth,
                lines=tuple(
                    (name_of_speaker(message, parties), message.content)
                    for message in told_messages(turn.messages)
                    # System messages are in every prompt unchanged.
                    if message.role is not Role.SYSTEM
                    and message.content.strip()
                    and message.message_id not in coverage.message_ids
                ),
                gist=gists.get(f"{turn.turn_id}.summary", ""),
                changes=describe_changes(turn.ops, window.state),
            )
            for turn in turns
            # A numerical turn changes numbers, which the state shows; it does not belong to the story.
            if turn.kind is TurnKind.NARRATIVE
        )

    def _usage_records(
        self, calls: Sequence[Call], head: SessionHead, began: float, before: int, error: str = ""
    ) -> list[ModelUsage]:
        """Return the records of calls; `before` is the number of earlier records of this job."""
        ms, stage = (perf_counter() - began) * 1000, ModelUsageStage.SUMMARIZE
        name = f"summary-{head.turn_id}-{'failed-' if error and error is not _UNUSED else ''}"
        return [
            usage_of(
                f"{name}{number}",
                replace(call, latency_ms=ms / len(calls)),
                self._count,
                stage=stage,
                purpose="summary",
                turn_id=head.turn_id,
                error=error,
            )
            for number, call in enumerate(calls, start=before + 1)
        ]


def describe_who_occurs(turns: Sequence[ConversationTurn], world: WorldPack) -> str:
    """Return one line for each entity that occurs in `turns`: the first sentence of its lore. Only lore that everyone
    may know is used.
    """
    said = "\n".join(text for turn in turns for _, text in turn.lines)
    names = {entity.entity_id: (entity.name, *entity.aliases) for entity in world.entities}
    lines = [
        f"{entry.title or entry.entities[0]}: {sentences[0]}"
        for entry in world.lore
        if not (entry.viewers or entry.when or entry.kind == LoreCategory.DIRECTIVE)
        and any(name in said for entity in entry.entities for name in names.get(entity, ()))
        and (sentences := split_sentences(entry.text))
    ]
    return "\n".join(lines[:MOST_PEOPLE])


def describe_changes(patch: Sequence[Mapping[str, Any]], state: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the changes of a patch as short texts such as `hero.coins 9`, `+ brass pin` and `- lamp`.

    Places that `state` hides are left out.
    """
    told: list[str] = []
    for op in patch:
        places, value = str(op.get("path", "")).split("/")[1:], op.get("value")
        path = [each for each in places if each and not each.isdecimal()]
        if is_hidden_at(state, places):
            continue
        if path[:2] == ["$meta", "gone"]:
            # Names of removed things.
            told += [f"- {name}" for name in (value.values() if isinstance(value, Mapping) else (value,)) if name]
            continue
        if isinstance(value, Mapping):
            name = read_plain_value(value.get("name") or value.get("title") or value.get("id"))
            told.append(f"+ {name}" if name else "")
        elif (plain := read_plain_value(value)) is not None and is_scalar(plain) and path and path[0] != "$meta":
            told.append(f"{'.'.join(path[-2:])} {str(plain).lower() if isinstance(plain, bool) else plain}")
    return tuple(each for each in dict.fromkeys(told) if 0 < len(each) <= CHANGE_CHARS)[:MOST_CHANGES]


def _summary_of(
    text: str, coverage: Coverage, turn_id: str, at: datetime, losses: Mapping[str, int], audience: Audience
) -> Summary:
    upto: dict[str, Any] = {"turn_id": turn_id, "depth": coverage.depth, "to": coverage.messages}
    upto |= {name: number for name, number in losses.items() if number}
    return Summary(
        content=text,
        updated_at=at,
        message_index_range=MessageIndexRange(from_index=1, to_index=coverage.messages),
        extra={UPTO: upto, **audience_field(audience)},
    )


def _extend_coverage(coverage: Coverage, turns: Sequence[TurnRecord]) -> Coverage:
    new = [m for turn in turns for m in turn.messages if m.message_id not in coverage.message_ids]
    return Coverage(depth=turns[-1].depth, messages=coverage.messages + len(new))


def _evidence(
    usage_id: str, answer: SummaryText, coverage: Coverage, at: datetime, turn_id: str | None, audience: Audience
) -> Evidence:
    return Evidence(
        evidence_id=usage_id,
        type=EvidenceType.LLM_OUTPUT,
        source=EvidenceSource(kind=SourceKind.LLM, name=answer.model or ""),
        content=answer.content,
        trust=Trust.MODEL,
        metadata={"what": "summary", "messages": [1, coverage.messages], **audience_field(audience)},
        links=EvidenceLinks(model_usage_id=usage_id, turn_id=turn_id),
        created_at=at,
    )
