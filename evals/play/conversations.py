"""Plays the conversations of labelled sets turn by turn, and asks their own questions: truth that is not of this project.

A set with a history is a conversation a session: its lines are played in their order and at their times, then every question
about it is asked, each on a branch of its own. A set whose queries are lines of a dialogue (each with what was said before) is
played line by line, and a question is scored where it is said. Documents that belong to all sessions are the world's lore.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from evals.answers.answer_scores import holds_text
from evals.answers.date_spans import gives_date, read_answer_date
from evals.dataset import LabelledQuery, LabelledSet
from evals.play.engine import LATE_CODES, OpenedEngine, codes_of, limit_prompts, open_engine
from evals.running.run import find_language
from jacquard import PreparedTurn, RuntimeConfig
from jacquard.authoring.replay.turn_view import view_turn
from jacquard.pipeline.worlds import build_bare_world
from mnemosyne import Author, AuthorKind, Chain, MemoryEntry, Message, Role
from mnemosyne.formats.corpora.corpus import CorpusDocument
from mnemosyne.schema.memory import Trust, world_scope
from mnemosyne.schema.world import WorldPack

SILENCE = "…"
"""Placeholder for the words of a speaker who is silent between two turns of the other; a turn has both."""
_WORLD = "conversations"
_FLESH = "flesh:"

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class SpokenLine:
    """One line of a conversation."""

    text: str
    is_user: bool
    speaker: str = ""
    at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """One turn of a conversation: what the user says, and the answer. `query` is the question that the user's words are."""

    input: str
    reply: str
    speaker: str = ""
    at: datetime | None = None
    query: LabelledQuery | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """A conversation with the questions that are asked after it."""

    name: str
    exchanges: tuple[Exchange, ...]
    questions: tuple[LabelledQuery, ...] = ()

    @property
    def question_count(self) -> int:
        """Return the number of questions asked in it and after it."""
        return len(self.questions) + sum(each.query is not None for each in self.exchanges)


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedQuestion:
    """Result of one question."""

    query_id: str
    category: str
    tokens: int
    evidence: float | None
    """Share of its relevant documents that the prompt contains, None if none is labelled."""
    answer: bool | None
    """Whether the prompt contains the gold answer literally, None if no relevant document does."""
    date: bool | None
    """The same for a date, in any form."""
    late: bool


async def play_set(
    labelled: LabelledSet,
    *,
    budget_tokens: int,
    embedder: str,
    cache: Path,
    limit: int | None = None,
    config: RuntimeConfig | None = None,
    progress: Progress = lambda what, done, total: None,
) -> tuple[AskedQuestion, ...]:
    """Play every conversation that a query of the set is about, and return what came of its questions, in order of play."""
    locale = find_language(labelled.pools())
    settings = limit_prompts(config, budget_tokens)
    documents = {each.document_id: each for each in labelled.corpus.documents}
    found = _sample(find_conversations(labelled), limit)
    world = _build_world(labelled, locale)
    asked: list[AskedQuestion] = []
    async with open_engine(world, locale=locale, embedder=embedder, config=settings, cache=cache) as opened:
        for place, conversation in enumerate(found, start=1):
            start = next((each.at for each in conversation.exchanges if each.at is not None), None)
            runner = _ConversationRunner(await opened.begin(f"conversation {place}", start), documents)
            asked += await runner.run(conversation)
            progress("conversations", place, len(found))
    return tuple(asked)


def _sample(found: tuple[Conversation, ...], limit: int | None) -> tuple[Conversation, ...]:
    """Return conversations with at most `limit` questions, spread evenly: of those that are asked after a conversation some of
    each, of dialogues whole ones.
    """
    total = sum(each.question_count for each in found)
    if limit is None or limit >= total:
        return found
    after = [(place, query) for place, each in enumerate(found) for query in each.questions]
    if after:
        kept = [after[number * len(after) // limit] for number in range(limit)]
        return tuple(
            replace(each, questions=tuple(query for owner, query in kept if owner == place))
            for place, each in enumerate(found)
            if any(owner == place for owner, _ in kept)
        )
    count = max(1, len(found) * limit // total)
    return tuple(found[number * len(found) // count] for number in range(count))


def find_conversations(labelled: LabelledSet) -> tuple[Conversation, ...]:
    """Return the conversations of a set, in the order in which its queries first name them."""
    by_session: dict[str, list[LabelledQuery]] = {}
    for query in labelled.queries:
        by_session.setdefault(query.session or "", []).append(query)
    history = {
        name: tuple(each for each in documents if each.chain is Chain.HISTORY)
        for name, documents in _group_by_session(labelled).items()
    }
    return tuple(
        Conversation(name=name, exchanges=_pair(_read_lines(history[name])), questions=tuple(queries))
        if history.get(name)
        else _build_dialogue(name, queries)
        for name, queries in by_session.items()
    )


def _group_by_session(labelled: LabelledSet) -> dict[str, list[CorpusDocument]]:
    grouped: dict[str, list[CorpusDocument]] = {}
    for document in labelled.corpus.documents:
        grouped.setdefault(document.session or "", []).append(document)
    return grouped


def _read_lines(documents: Sequence[CorpusDocument]) -> list[SpokenLine]:
    """Return the lines of a conversation; the user is whom the lines call so, or who speaks first."""
    roles = {each.speaker: each.role for each in reversed(documents) if each.role is not None}
    first = documents[0].speaker
    return [
        SpokenLine(
            text=each.text,
            is_user=(each.role or roles.get(each.speaker)) is Role.USER if roles else each.speaker == first,
            speaker=each.speaker or "",
            at=each.at,
        )
        for each in documents
    ]


def _pair(lines: Sequence[SpokenLine]) -> tuple[Exchange, ...]:
    """Return lines as turns: lines of one speaker at one time are joined, and a missing half of a turn is a silence."""
    runs = [(key[0], key[1], list(run)) for key, run in groupby(lines, key=lambda each: (each.is_user, each.at))]
    exchanges: list[Exchange] = []
    waiting: tuple[datetime | None, list[SpokenLine]] | None = None
    for is_user, at, run in runs:
        text = "\n".join(each.text for each in run)
        if is_user:
            if waiting is not None:
                exchanges.append(_exchange(waiting[1], waiting[0], SILENCE))
            waiting = (at, run)
        elif waiting is not None and waiting[0] == at:
            exchanges.append(_exchange(waiting[1], at, text))
            waiting = None
        else:
            if waiting is not None:
                exchanges.append(_exchange(waiting[1], waiting[0], SILENCE))
                waiting = None
            exchanges.append(Exchange(input=SILENCE, reply=text, at=at))
    if waiting is not None:
        exchanges.append(_exchange(waiting[1], waiting[0], SILENCE))
    return tuple(exchanges)


def _exchange(run: Sequence[SpokenLine], at: datetime | None, reply: str) -> Exchange:
    return Exchange(input="\n".join(each.text for each in run), reply=reply, speaker=run[0].speaker, at=at)


def _build_dialogue(name: str, queries: Sequence[LabelledQuery]) -> Conversation:
    """Return a dialogue from queries that are lines of it, each with the lines before and the line that answers it.

    Its first speaker is the user; queries by the other one are not inputs, and are left out.
    """
    lines: list[str] = []
    asked: dict[int, LabelledQuery] = {}
    for query in queries:
        known = [*(each.text for each in query.history), query.text]
        overlap = next(n for n in range(min(len(known), len(lines)), -1, -1) if lines[len(lines) - n :] == known[:n])
        lines += known[overlap:]
        asked[len(lines) - 1] = query
        if query.answer is not None:
            lines.append(query.answer)
    exchanges = [
        Exchange(
            input=lines[place], reply=lines[place + 1] if place + 1 < len(lines) else SILENCE, query=asked.get(place)
        )
        for place in range(0, len(lines), 2)
    ]
    return Conversation(name=name, exchanges=tuple(exchanges))


def _build_world(labelled: LabelledSet, locale: str) -> WorldPack:
    """Return a world whose lore is what belongs to all sessions."""
    scope = world_scope(_WORLD)
    lore = tuple(
        MemoryEntry(
            entry_id=each.document_id,
            scope=scope,
            chain=Chain.LORE,
            kind="encyclopedia",
            text=each.text,
            trust=Trust.AUTHORED,
        )
        for each in labelled.corpus.documents
        if each.session is None and each.chain is not Chain.HISTORY
    )
    return replace(build_bare_world(_WORLD), locale=locale, lore=lore)


class _ConversationRunner:
    """Plays one conversation in an open session."""

    def __init__(self, opened: OpenedEngine, documents: dict[str, CorpusDocument]) -> None:
        self._opened, self._documents = opened, documents

    async def run(self, conversation: Conversation) -> list[AskedQuestion]:
        """Play it, then ask what is asked after it; return what the prompts of all questions held."""
        asked: list[AskedQuestion] = []
        opened, last = self._opened, self._opened.root
        for exchange in conversation.exchanges:
            opened.clock.step(exchange.at)
            author = Author(kind=AuthorKind.USER, id=exchange.speaker) if exchange.speaker else None
            turn = await opened.prepare(Message(role=Role.USER, content=exchange.input, author=author, at=exchange.at))
            if exchange.query is not None:
                asked.append(self._score(exchange.query, turn))
            await opened.engine.commit_assistant_message(
                opened.session,
                Message(role=Role.ASSISTANT, content=exchange.reply, at=exchange.at),
                turn_id=turn.turn_id,
            )
            await opened.settle()
            last = turn.turn_id
        for number, query in enumerate(conversation.questions, start=1):
            opened.clock.step()
            branch = f"question_{number}"
            await opened.store.fork(opened.session, last, branch)
            turn = await opened.prepare(Message(role=Role.USER, content=query.text), branch)
            asked.append(self._score(query, turn))
        return asked

    def _score(self, query: LabelledQuery, turn: PreparedTurn) -> AskedQuestion:
        view = view_turn(turn)
        blocks = [block for block in view.blocks if block.group != "input"]
        text = "\n".join(block.plain for block in blocks)
        squeezed = "".join(text.split())
        shown = {block.block_id.removeprefix(_FLESH) for block in blocks}
        gold = [self._documents[name] for name in sorted(query.wanted) if name in self._documents]
        held = [each.document_id in shown or "".join(each.text.split()) in squeezed for each in gold]
        wanted = None if query.answer is None else read_answer_date(query.answer)
        answer = None
        if query.answer and any(holds_text(each.text, query.answer) for each in gold):
            answer = holds_text(text, query.answer)
        return AskedQuestion(
            query_id=query.query_id,
            category=query.category,
            tokens=turn.report.budget.used_tokens,
            evidence=sum(held) / len(held) if held else None,
            answer=answer,
            date=None if wanted is None else gives_date(text, wanted),
            late=bool(codes_of(turn) & LATE_CODES),
        )


def summarize_questions(asked: Sequence[AskedQuestion]) -> dict[str, Any]:
    """Return the means over questions, and of how many: evidence, answers and dates in the prompt, and its tokens."""
    plain: dict[str, Any] = {"questions": len(asked), "late": sum(each.late for each in asked)}
    for name in ("evidence", "answer", "date", "tokens"):
        values = [float(value) for each in asked if (value := getattr(each, name)) is not None]
        plain[name] = round(sum(values) / len(values), 4) if values else None
        plain[f"{name}_of"] = len(values)
    return plain


def questions_json(name: str, budget_tokens: int, asked: Sequence[AskedQuestion]) -> dict[str, Any]:
    """Return what came of the questions of a set as plain values: all, by category, and one by one."""
    categories = dict.fromkeys(each.category for each in asked)
    return {
        "set": name,
        "budget": budget_tokens,
        "all": summarize_questions(asked),
        "by_category": {
            kind: summarize_questions([each for each in asked if each.category == kind]) for kind in categories
        },
        "questions": [{key: getattr(each, key) for key in each.__dataclass_fields__} for each in asked],
    }
