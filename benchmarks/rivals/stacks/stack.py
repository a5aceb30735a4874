"""Protocol of every stack, and its input and output values. Knows no stack and no framework."""

from __future__ import annotations

import html
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from mnemosyne import CalibratedEstimator, Chain
from mnemosyne.formats.corpora.corpus import CorpusDocument
from mnemosyne.protocols import Vectors

INSTRUCTION = (
    "You are a helpful agent in a long conversation. Answer from the memories and the conversation; say so when they do not "
    "hold the answer."
)
HISTORY_TOKENS = 3000
"""Limit of each stack's own trimming of the session so far; the bench hands out less, so that all show the same."""

_WORD = re.compile(r"[^\W_]+")
_CJK = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
_TOKENS = CalibratedEstimator()


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnRequest:
    """One turn: the words, how many memories the prompt may hold, and in how many tokens (of their lines)."""

    query: str
    limit: int
    tokens: int

    @property
    def depth(self) -> int:
        """Number of hits to ask of each arm: twice the wanted number, at least 10 and at most 50."""
        return min(max(2 * self.limit, 10), 50)


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """A prompt without a model."""

    ranked: tuple[str, ...]
    """Ids, best first."""
    evidence: tuple[tuple[str, int], ...]
    """(id, tokens) of the documents in the prompt, best first."""
    messages: tuple[tuple[str, str], ...]
    steps_ms: Mapping[str, float] = field(default_factory=dict)
    """Times of its steps, if a stack reports them."""

    @property
    def text(self) -> str:
        """The whole prompt as one plain text: escapes undone, white space made even."""
        return normalise_spaces(html.unescape("\n".join(content for _, content in self.messages)))


class Model(Protocol):
    """The embedder that all stacks share."""

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Return a unit vector a text."""
        ...

    def query(self, text: str) -> Vectors:
        """Return the unit vector of a query; the time that it takes is noted."""
        ...


class Stack(Protocol):
    """A session of one stack.

    1. `index` is called once, with everything that may be recalled, and before anything else; `talk` is the session so
       far (the newest documents, oldest first), which every prompt contains.
    2. `turn` returns ranked ids and the finished prompt; documents of the session so far are not recalled again.
    3. `recall` is only the search, embedding included.
    4. `commit` takes the input of the turn before, and the reply to it. The next turn shows both as the newest
       messages, and both can be recalled. `settle` returns when no work of that is left in the background.
    5. `close` releases everything.
    """

    async def index(self, documents: Sequence[CorpusDocument], talk: Sequence[CorpusDocument]) -> None:
        """Take in all documents."""
        ...

    async def turn(self, ask: TurnRequest) -> Turn:
        """Return the prompt of one turn."""
        ...

    async def recall(self, query: str, limit: int) -> tuple[str, ...]:
        """Return ids, best first."""
        ...

    async def commit(self, query: str, reply: str) -> None:
        """Take in a finished turn; returns when the host may go on."""
        ...

    async def settle(self) -> None:
        """Wait for the background."""
        ...

    async def discard(self) -> None:
        """Forget the turn before, if it was not committed: the next one is asked at the same place."""
        ...

    async def close(self) -> None:
        """Let go."""
        ...


class Lines:
    """Documents as the prompts of the rivals show them: date, speaker and words, with their tokens counted once; and the
    newest messages of the session, always as many as there were at first.
    """

    def __init__(self, documents: Sequence[CorpusDocument], talk: Sequence[CorpusDocument]) -> None:
        self._lines = {each.document_id: line_of(each) for each in documents}
        self._tokens = {name: _TOKENS.estimate(line) for name, line in self._lines.items()}
        self._newest = deque(zip((each.document_id for each in talk), list_roles(talk), strict=True), maxlen=len(talk))
        self._speakers = _pick_speakers(talk or documents)
        self._played = 0

    def __getitem__(self, document_id: str) -> str:
        """Return the line of a document."""
        return self._lines[document_id]

    @property
    def roles(self) -> list[tuple[str, str]]:
        """(role, text) of the newest messages, oldest first."""
        return [role for _, role in self._newest]

    def add_turn(self, query: str, reply: str) -> tuple[CorpusDocument, CorpusDocument]:
        """Add the two messages of a turn and return them as documents."""
        self._played += 1
        user, assistant = (
            CorpusDocument(
                document_id=f"played-{self._played}-{role}",
                chain=Chain.HISTORY,
                text=text,
                line=len(self._lines) + place,
                speaker=speaker,
            )
            for place, (role, speaker, text) in enumerate(
                zip(("user", "assistant"), self._speakers, (query, reply), strict=True)
            )
        )
        for role, each in (("user", user), ("assistant", assistant)):
            self._lines[each.document_id] = line_of(each)
            self._tokens[each.document_id] = _TOKENS.estimate(line_of(each))
            self._newest.append((each.document_id, (role, format_document(each))))
        return user, assistant

    def drop_shown(self, ranked: Sequence[str]) -> tuple[str, ...]:
        """Return a ranking without what the session so far shows."""
        shown = {name for name, _ in self._newest}
        return tuple(name for name in ranked if name not in shown)

    def within(self, ranked: Sequence[str], limit: int, tokens: int) -> tuple[tuple[str, int], ...]:
        """Return the first of a ranking that fit, with what each costs."""
        chosen, left = [], tokens
        for name in ranked[:limit]:
            cost = self._tokens[name]
            if cost > left:
                break
            left -= cost
            chosen.append((name, cost))
        return tuple(chosen)


def format_document(document: CorpusDocument) -> str:
    """Return what is embedded and searched by the rivals: speaker and words."""
    return f"{document.speaker}: {document.text}" if document.speaker else document.text


def line_of(document: CorpusDocument) -> str:
    """Return a document as a line of a prompt."""
    return (
        f"[{document.at:%Y-%m-%d}] {format_document(document)}"
        if document.at is not None
        else format_document(document)
    )


def list_roles(talk: Sequence[CorpusDocument]) -> Iterator[tuple[str, str]]:
    """Yield (role, text) of the session so far: the first speaker is the user."""
    for each in talk:
        yield ("user" if each.speaker == talk[0].speaker else "assistant"), format_document(each)


def _pick_speakers(documents: Sequence[CorpusDocument]) -> tuple[str, str]:
    """Return the names of user and assistant: the first speaker, and the first who is another."""
    speakers = [each.speaker or "" for each in documents] or [""]
    return speakers[0], next((each for each in speakers if each != speakers[0]), speakers[0])


def split_words(text: str) -> list[str]:
    """Return lower-case words, Chinese as pairs of characters: what a careful user gives to a plain BM25."""
    found: list[str] = []
    for word in _WORD.findall(text.lower()):
        if _CJK.search(word):
            for run in _CJK.findall(word):
                found.extend(a + b for a, b in pairwise(run)) if len(run) > 1 else found.append(run)
            found.extend(part for part in _CJK.split(word) if part)
        else:
            found.append(word)
    return found


def normalise_spaces(text: str) -> str:
    """Return a text with its white space made even, for finding one text in another."""
    return " ".join(text.split())


def estimate(text: str) -> int:
    """Return the tokens of a text by the one count that all stacks are measured with."""
    return _TOKENS.estimate(text)


def find_missing(turn: Turn, texts: Mapping[str, str]) -> list[str]:
    """Return the ids that a turn claims to show and whose words are not in its prompt, of those with known `texts`."""
    prompt = turn.text
    return [name for name, _ in turn.evidence if name in texts and normalise_spaces(texts[name]) not in prompt]
