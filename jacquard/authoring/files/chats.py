"""Brings the turns of a chat into a session, in pages: it can be stopped at any moment, and called again.

The ids of a chat's turns follow from all that was said before, so what a session has of a chat is its beginning: the rest is added
after it. Where the session went on otherwise, or begins otherwise, the rest is a branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from anyio import to_thread

from mnemosyne.chains.audience import NOBODY, audience_field
from mnemosyne.core.errors import TurnNotFoundError
from mnemosyne.formats.chats.sillytavern import HIDDEN
from mnemosyne.formats.values import Chat
from mnemosyne.protocols import Store
from mnemosyne.schema.record import ImportedTurn
from mnemosyne.schema.session import Message, SessionHead

PAGE_TURNS = 200
Report = Callable[[int, int], None]


async def import_chat(
    store: Store, session_id: str, chat: Chat, *, progress: Report, page_turns: int = PAGE_TURNS
) -> SessionHead:
    """Bring a chat into a session that exists, and other replies to its turns as branches; return the active head.

    The branch with the chat becomes the active one. CorpusError where the file changed into one that cannot be read; what was
    written before that stays.
    """
    ids = await to_thread.run_sync(_list_ids, chat)
    known = await _count_known(store, session_id, ids)
    head = await _open_branch(store, session_id, ids, known)
    turns = islice(chat.read_turns(), known, None)
    done = known
    while page := await to_thread.run_sync(_read_page, turns, page_turns):
        head = await store.append_turns(session_id, page)
        done += len(page)
        progress(done, len(ids))
    return await _bring_in_alternatives(store, session_id, chat, head, progress)


def _list_ids(chat: Chat) -> list[str]:
    return [turn.turn_id for turn in chat.read_turns()]


def _read_page(turns: Iterator[ImportedTurn], count: int) -> tuple[ImportedTurn, ...]:
    return tuple(replace(turn, messages=_hide(turn.messages), alternatives=()) for turn in islice(turns, count))


def _hide(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages, those that their program hid with an audience of nobody."""
    return tuple(
        replace(message, extra={**message.extra, **audience_field(NOBODY)})
        if message.extra.get(HIDDEN) is True
        else message
        for message in messages
    )


async def _count_known(store: Store, session_id: str, ids: Sequence[str]) -> int:
    """Return how many turns of a chat a session has: if it has one, it has all before it."""
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high + 1) // 2
        if await _has(store, session_id, ids[middle - 1]):
            low = middle
        else:
            high = middle - 1
    return low


async def _has(store: Store, session_id: str, turn_id: str) -> bool:
    try:
        await store.turn(session_id, turn_id)
    except TurnNotFoundError:
        return False
    return True


async def _open_branch(store: Store, session_id: str, ids: Sequence[str], known: int) -> SessionHead:
    """Return the head after which the rest of a chat goes on, on the active branch."""
    head = await store.head(session_id)
    last = ids[known - 1] if known else None
    if known == len(ids) or head.turn_id == last:
        return head
    branches = {each.branch_id: each for each in await store.branches(session_id)}
    for name, each in branches.items():
        if each.turn_id == last:
            return await store.switch(session_id, name)
    name = f"chat-{ids[known][-8:]}"
    return await (store.switch(session_id, name) if name in branches else store.fork(session_id, last, name))


async def _bring_in_alternatives(
    store: Store, session_id: str, chat: Chat, head: SessionHead, progress: Report
) -> SessionHead:
    """Bring in the other replies of a chat, each as a branch of one turn; return the head as it was."""
    heads: dict[str, SessionHead] | None = None
    parent: str | None = None
    done = 0
    turns = chat.read_turns()
    while page := await to_thread.run_sync(_read_alternatives, turns, PAGE_TURNS):
        for turn in page:
            for other in turn.alternatives:
                if heads is None:
                    heads = {each.branch_id: each for each in await store.branches(session_id)}
                await _bring_in_alternative(store, session_id, parent, other, heads)
            parent = turn.turn_id
        done += len(page)
        progress(done, chat.turn_count)
    return head if heads is None else await store.switch(session_id, head.branch_id)


def _read_alternatives(turns: Iterator[ImportedTurn], count: int) -> tuple[ImportedTurn, ...]:
    return tuple(
        replace(turn, messages=(), alternatives=tuple(_hide(each) for each in turn.alternatives))
        for turn in islice(turns, count)
    )


async def _bring_in_alternative(
    store: Store, session_id: str, parent: str | None, messages: tuple[Message, ...], heads: dict[str, SessionHead]
) -> None:
    turn_id = messages[0].message_id.rpartition(".")[0]
    name = f"swipe-{turn_id[-12:]}"
    known = heads.get(name)
    if known is not None and known.turn_id == turn_id:
        return
    if known is None:
        heads[name] = await store.fork(session_id, parent, name)
    else:
        await store.switch(session_id, name)
    heads[name] = await store.append_turns(session_id, (ImportedTurn(turn_id=turn_id, messages=messages),))
