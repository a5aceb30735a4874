"""Imports a chat of another program into a session, page by page. Alternative replies become branches.

An import can be stopped at any time and repeated. Stored turns are recognised by their ids and messages, and are not
written twice. If the chat has become longer, its new turns are added. If the chat differs from the session, the chat
becomes a branch from the first difference on. The active branch does not change. The caller holds the lock of the
session.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from anyio import to_thread

from mnemosyne.chains.audience import read_audience
from mnemosyne.core.errors import BranchExistsError, CorpusError
from mnemosyne.protocols import Store
from mnemosyne.schema.record import ImportedBranch, ImportedTurn, SessionWindow, TurnRecord
from mnemosyne.schema.session import Message, SessionHead, count_inputs
from mnemosyne.values import dataclass

PAGE_TURNS = 200
"""Maximum number of turns that are read and written together."""
PAGE_CHARS = 2_000_000
"""Number of characters after which a page ends, even if it has fewer than PAGE_TURNS turns."""

Progress = Callable[[int], None]


def ignore_progress(turns: int) -> None:
    """Do nothing with the number of imported turns."""


async def import_chat(
    store: Store,
    session_id: str,
    turns: Iterator[ImportedTurn],
    *,
    page: int = PAGE_TURNS,
    progress: Progress = ignore_progress,
) -> SessionHead:
    """Import the turns of a chat into an existing session. Return the head of the branch on which the chat ends.

    An empty session begins with the chat. In any other session the chat continues the turns that both have in common;
    if the session went on differently, the rest of the chat becomes a branch `chat-…`. Each alternative reply becomes a
    branch `swipe-…`. `page` is the number of turns written together. `progress` is called after each page with the
    number of turns so far.

    Raises CorpusError if the session has turns but not the first turn of this chat, because it is another conversation.
    Raises SessionNotFoundError if the session does not exist.
    """
    chat = _ChatImport(store, await store.window(session_id, message_limit=1), page)
    done = 0
    while some := await to_thread.run_sync(_take_page, turns, page):
        await chat.add(some)
        done += len(some)
        progress(done)
    return await store.head(session_id, chat.branch_id)


def _take_page(turns: Iterator[ImportedTurn], page: int) -> list[ImportedTurn]:
    taken: list[ImportedTurn] = []
    chars = 0
    while len(taken) < page and chars < PAGE_CHARS and (turn := next(turns, None)) is not None:
        taken.append(turn)
        chars += sum(len(message.content) for said in (turn.messages, *turn.alternatives) for message in said)
    return taken


@dataclass(frozen=True, kw_only=True, slots=True)
class _PlacedTurn:
    """Turn of the chat with its place in the session."""

    turn: ImportedTurn
    after: str | None
    """Turn before it."""
    known: frozenset[str]
    """Ids of replies that the session already has."""


class _ChatImport:
    """Walks a chat and a session in parallel; `branch_id` and `_last` are the present branch and turn of the walk."""

    def __init__(self, store: Store, window: SessionWindow, page: int) -> None:
        head = window.head
        self._store, self._session_id, self._page = store, head.session_id, page
        self.branch_id = head.branch_id
        self._last, self._depth = head.turn_id, head.depth
        self._is_empty = head.depth == 0 and window.pending is None
        self._is_begun = False
        self._is_at_head = False
        self._waiting: list[ImportedTurn] = []
        self._records: dict[str, TurnRecord] = {}
        self._read_branches: set[str] = set()

    async def add(self, turns: Sequence[ImportedTurn]) -> None:
        """Import the next turns, and then the alternative replies to them."""
        known = await self._store.committed_turns(self._session_id, [turn.turn_id for turn in turns])
        settled = [await self._settle(turn, turn.turn_id in known) for turn in turns]
        await self._write()
        await self._add_others(settled)
        self._records.clear()
        self._read_branches.clear()

    async def _settle(self, turn: ImportedTurn, is_known: bool) -> _PlacedTurn:
        """Walk over a turn that the session has, or queue it for writing."""
        record = await self._read(turn.turn_id) if is_known else None
        if not self._is_begun:
            self._begin(record)
        after, known = self._after, {_id_of(turn, self._after, turn.messages)}
        if record is not None and record.parent_id == after:
            known.add(_id_of(turn, after, record.messages))
        rest = deque([turn])
        while rest:
            each = rest.popleft()
            if each is not turn:
                found = await self._store.committed_turns(self._session_id, [each.turn_id])
                record = await self._read(each.turn_id) if found else None
            rest.extend(await self._walk(each, record))
        return _PlacedTurn(turn=turn, after=after, known=frozenset(known))

    def _begin(self, record: TurnRecord | None) -> None:
        """Find the place of the first turn; raises CorpusError if the session has another conversation."""
        if record is not None:
            self.branch_id, self._last, self._depth = record.branch_id, record.parent_id, record.depth - 1
        elif not self._is_empty:
            raise CorpusError(
                f"Session {self._session_id!r} has another conversation: its first turn is not that of this chat. "
                "Import the chat into a session of its own."
            )
        self._is_begun = True

    @property
    def _after(self) -> str | None:
        return self._waiting[-1].turn_id if self._waiting else self._last

    async def _walk(self, turn: ImportedTurn, record: TurnRecord | None) -> tuple[ImportedTurn, ...]:
        """Take one turn; return the rest of it if the session has its beginning."""
        after = self._after
        if record is not None and record.parent_id == after:
            said = _said(record.messages)
            if said == _said(turn.messages):
                return self._pass(record)
            count = len(said)
            if count and said == _said(turn.messages[:count]):
                self._pass(record)
                return (replace(turn, turn_id=f"{turn.turn_id}+{count}", messages=turn.messages[count:]),)
        if record is not None:
            turn = replace(turn, turn_id=_id_of(turn, after, turn.messages))
            if await self._store.committed_turns(self._session_id, [turn.turn_id]):
                return self._pass(await self._read(turn.turn_id))
        self._waiting.append(turn)
        return ()

    def _pass(self, record: TurnRecord) -> tuple[ImportedTurn, ...]:
        """Walk on to a turn that the session has."""
        self.branch_id, self._last, self._depth = record.branch_id, record.turn_id, record.depth
        self._is_at_head = False
        return ()

    async def _read(self, turn_id: str) -> TurnRecord:
        """Return a turn of the session; those after the place of the walk are read together."""
        if turn_id not in self._records and self._is_begun and self.branch_id not in self._read_branches:
            self._read_branches.add(self.branch_id)
            page = await self._store.turns(
                self._session_id, limit=self._page, branch_id=self.branch_id, before_depth=self._depth + self._page + 1
            )
            self._records |= {record.turn_id: record for record in page}
        if turn_id not in self._records:
            self._records[turn_id] = await self._store.turn(self._session_id, turn_id)
        return self._records[turn_id]

    async def _write(self) -> None:
        """Write the queued turns: after the last one if it is the head of its branch, else in a new branch."""
        if not self._waiting:
            return
        turns, self._waiting = tuple(self._waiting), []
        if not self._is_at_head:
            self._is_at_head = await self._is_last_at_head()
        if self._is_at_head:
            head = await self._store.append_turns(self._session_id, turns, branch_id=self.branch_id)
        else:
            name = _branch_name("chat", turns[0].turn_id)
            branch = ImportedBranch(branch_id=name, after=self._last, turns=turns)
            if not await self._store.add_branches(self._session_id, (branch,)):
                raise BranchExistsError(self._session_id, name)
            head = await self._store.head(self._session_id, name)
        self.branch_id, self._last, self._depth, self._is_at_head = head.branch_id, head.turn_id, head.depth, True

    async def _is_last_at_head(self) -> bool:
        window = await self._store.window(self._session_id, message_limit=1, branch_id=self.branch_id)
        # A turn that waits for its reply would come between the chat and the turns after it.
        return window.head.turn_id == self._last and window.pending is None

    async def _add_others(self, settled: Sequence[_PlacedTurn]) -> None:
        """Open a branch for each alternative reply that the session does not have."""
        branches: dict[str, ImportedBranch] = {}
        for each in settled:
            inputs = each.turn.messages[: count_inputs(each.turn.messages)]
            for replies in each.turn.alternatives:
                messages = (*inputs, *replies)
                turn_id = _id_of(each.turn, each.after, messages)
                if turn_id not in each.known:
                    turn = replace(each.turn, turn_id=turn_id, messages=_copy(messages), alternatives=())
                    name = _branch_name("swipe", turn_id)
                    branches[turn_id] = ImportedBranch(branch_id=name, after=each.after, turns=(turn,))
        if branches:
            there = await self._store.committed_turns(self._session_id, list(branches))
            new = [branch for turn_id, branch in branches.items() if turn_id not in there]
            if new:
                await self._store.add_branches(self._session_id, new)


def _copy(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return copies of messages without ids, except the last one's, because another turn has these ids."""
    return (*(replace(message, message_id="") for message in messages[:-1]), *messages[-1:])


def _said(messages: Sequence[Message]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the parts by which two turns are equal: speaker, text and audience."""
    return [(message.role.value, message.content, read_audience(message.extra)) for message in messages]


def _id_of(turn: ImportedTurn, after: str | None, messages: Sequence[Message]) -> str:
    """Return the id of a turn that has other messages than the one with its id, or another turn before it."""
    text = json.dumps([after, _said(messages)], ensure_ascii=True)
    return f"{turn.turn_id}~{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _branch_name(kind: str, turn_id: str) -> str:
    return f"{kind}-{turn_id.removeprefix('chat-')}"
