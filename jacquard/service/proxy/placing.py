"""Moves the session of a call to the position that the client's messages show. For this, stored messages are edited,
deleted or added, or another branch becomes active.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import pairwise
from typing import Any

from jacquard.pipeline.record.stored_turn import viewer_of
from jacquard.pipeline.worlds import build_bare_world
from jacquard.service.proxy.alignment import Decision, Verdict, align, judge
from jacquard.service.proxy.client_lines import CLIENT_LINES, find_instruction, without_lines
from jacquard.service.proxy.conversation import MESSAGE_CHARS, CallMessages
from jacquard.service.proxy.message_forms import MessageForm, form_of
from jacquard.service.proxy.stored_paths import (
    SPARE,
    StoredPath,
    find_paths,
    forms_of,
    opening_turns,
    session_exists,
    split_said,
    spoken,
)
from jacquard.turns.writing.branches import RetoldTurn, find_input, read_path
from jacquard.wiring.runtime import Runtime
from mnemosyne.chains.audience import may_read, read_audience
from mnemosyne.chains.messages.message_parts import PARTS, message_from_chat
from mnemosyne.core.errors import SessionExistsError
from mnemosyne.core.off_loop import calculate
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import Message, Role, SessionHead
from mnemosyne.values import dataclass

LEAST_LIKE_REPLY = 0.6
"""Minimum likeness (from 0 to 1) of two messages that count as versions of one."""
NEWEST = 100
"""Number of newest stored messages that are searched for lines that the client adds to each call."""
MOST_BEFORE = 4
"""Number of messages before an exchange that are compared, to recognise the exchange as one from another branch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallPlace:
    """Position of a call in its session."""

    user: Message
    """The user's newest message, without lines that the client added."""
    shown: int
    """Number of newest stored messages that the client shows before `user`."""
    shown_turns: int = 0
    """Number of newest complete turns that the client shows before `user`."""
    is_cut: bool = False
    """True if the client leaves out messages that are older than the messages that it shows."""
    again_turn: str | None = None
    """Id of the turn whose input is answered again (None: `user` is a new message)."""
    decision: Decision = field(default_factory=Decision)


async def ensure_session(runtime: Runtime, session_id: str) -> None:
    """Start the session if it is missing: in the world of the service, or without a world if the service has none."""
    if not await session_exists(runtime, session_id):
        with suppress(SessionExistsError):
            await runtime.engine.start_session(session_id, runtime.opening or build_bare_world("bare"))


async def goes_on_with_reply(
    runtime: Runtime, session_id: str, said: CallMessages, replies: Sequence[Mapping[str, Any]]
) -> bool:
    """Return whether the model is asked to continue a stored reply. `replies` are the assistant messages after the
    user's newest message; the result is true if they resemble a stored reply.

    Otherwise `replies` are a beginning that the client gives to a new reply.
    """
    if not await session_exists(runtime, session_id):
        return False
    shown = (*said.forms, said.user_form, *(form_of(message_from_chat(each)) for each in replies))
    paths = await find_paths(runtime, session_id, shown, await opening_turns(runtime, session_id))
    for path in paths:
        for pair in path.alignment.pairs:
            mine, theirs = shown[pair.shown], path.forms[pair.stored]
            if pair.shown > len(said.forms) and (
                mine.says_same(theirs) or mine.contains(theirs) or mine.likeness(theirs) >= LEAST_LIKE_REPLY
            ):
                return True
    return False


async def place(runtime: Runtime, session_id: str, said: CallMessages) -> CallPlace:
    """Move the session to the position of the client's messages, and return the position of the user's newest message.

    If the client edited a message, the stored message is edited too, and later messages stay. If another branch
    explains the call clearly better than the active branch, the other branch becomes active. A call with a viewer's
    token changes no messages.
    """
    opening = await opening_turns(runtime, session_id)
    if said.viewer is not None:
        return await _place_of_viewer(runtime, session_id, said, opening)
    said = await split_said(runtime, session_id, said, opening)
    if said.named and not said.before:
        return await _place_alone(runtime, session_id, said, opening)
    paths = await find_paths(runtime, session_id, said.forms, opening)
    counts = {"branch": int(not paths[0].is_active)}
    if not paths[0].is_active:
        await runtime.engine.switch(session_id, paths[0].branch_id)
    said, path, instructions = _without_instruction(said, paths[0])
    counts["instruction"] = len(said.user.extra.get(CLIENT_LINES, ()))
    if said.named and path.stored and said.before and not path.alignment.pairs:
        # Another conversation with the same name, or a summary of it: nothing shows that the former one is over.
        await _adopt(runtime, session_id, said.before)
        decision = Decision({**counts, "unknown": len(said.before)})
        return CallPlace(user=said.user, shown=len(said.before), is_cut=True, decision=decision)
    verdict = judge(path.alignment, said.forms, said.user_form, path.forms, is_whole=path.is_whole)
    verdict = replace(verdict, deleted=verdict.deleted | instructions)
    shown = _count_shown(path, verdict)
    shown_turns = _count_turns(path, said, verdict, shown)
    if await _shows_waiting(runtime, session_id, said, path, verdict):
        # The engine stores it as unanswered.
        verdict = replace(verdict, appended=verdict.appended[1:])
    again = await _carry_out(runtime, session_id, said, [path, *paths[1:]], verdict, opening)
    is_whole = path.is_whole and not opening and path.alignment.first <= 0
    return CallPlace(
        user=said.user,
        shown=shown,
        shown_turns=shown_turns,
        is_cut=verdict.left_out > 0 or not is_whole,
        again_turn=again,
        decision=Decision({**counts, **verdict.counts(len(path.stored), is_again=again is not None)}),
    )


async def _shows_waiting(
    runtime: Runtime, session_id: str, said: CallMessages, path: StoredPath, verdict: Verdict
) -> bool:
    """Return whether the client shows, after all stored messages, the one that still waits for a reply, without a reply."""
    if not verdict.appended or verdict.changes or verdict.last + 1 < len(path.stored):
        return False
    first, *others = (said.forms[at] for at in verdict.appended)
    if others and others[0].role is Role.ASSISTANT:
        return False
    pending = (await runtime.store.window(session_id, message_limit=1)).pending
    asked = None if pending is None else find_input(pending)
    return asked is not None and form_of(asked).is_same(first)


def _without_instruction(said: CallMessages, path: StoredPath) -> tuple[CallMessages, StoredPath, frozenset[int]]:
    """Return the call without the lines that the client adds to each, the path next to it, and the places of stored messages
    that consist only of such lines.
    """
    newest = [each.message for each in path.stored[-NEWEST:]]
    lines = find_instruction(said.user_form, said.forms, newest, path.forms, path.alignment)
    before, user = said.before, without_lines(said.user, lines) if lines else said.user
    if not user.content.strip() and not user.extra.get(PARTS):
        if not before or before[-1].role is not Role.USER:
            return said, path, frozenset()
        before, user = (
            before[:-1],
            replace(before[-1], extra={**before[-1].extra, **user.extra}),
        )
    if user is said.user:
        return said, path, frozenset()
    changed = said.with_messages(before, user)
    if len(before) == len(said.before):
        return changed, path, frozenset()
    kept = [at for at, form in enumerate(path.forms) if not form.is_same(said.user_form)]
    alignment = align(changed.forms, [path.forms[at] for at in kept]).at_places(kept)
    last = alignment.pairs[-1].stored if alignment.pairs else -1
    return changed, replace(path, alignment=alignment), frozenset({*range(last)} - {*kept})


async def _carry_out(
    runtime: Runtime,
    session_id: str,
    said: CallMessages,
    paths: Sequence[StoredPath],
    verdict: Verdict,
    opening: frozenset[str],
) -> str | None:
    """Carry out the client's changes on the session; return the turn whose input is answered again, if any."""
    path = paths[0]
    rest = path.stored[verdict.last + 1 :]
    elsewhere = _TurnsElsewhere(runtime, session_id, said, path)
    if verdict.appended or verdict.added:
        size = MESSAGE_CHARS * sum(len(each.stored) for each in paths)
        await calculate(elsewhere.read, paths, verdict, size=size)
    is_partial = bool(rest) and verdict.last >= 0 and path.stored[verdict.last].turn_id == rest[0].turn_id
    if not verdict.changes and not is_partial:
        if verdict.is_again and len({each.turn_id for each in rest}) == 1:
            return rest[0].turn_id
        newest = max(opening, key=lambda each: (len(each), each), default=None)
        after = path.stored[verdict.last].turn_id if verdict.last >= 0 else newest
        turns = await elsewhere.tell(verdict.appended)
        if rest or any(turn.copied for turn in turns):
            await runtime.engine.retell(session_id, after, turns)
        else:
            await _adopt(runtime, session_id, [said.before[at] for at in verdict.appended])
        return None
    first = min((*verdict.changes, *([verdict.last] if is_partial else [])))
    records = await read_path(runtime.store, session_id, from_turn=path.stored[first].turn_id)
    turns = [turn async for turn in _retold(said, path, verdict, records, elsewhere)]
    turns += await elsewhere.tell(verdict.appended)
    await runtime.engine.retell(session_id, records[0].parent_id, turns)
    return None


async def _retold(
    said: CallMessages, path: StoredPath, verdict: Verdict, records: Sequence[TurnRecord], elsewhere: _TurnsElsewhere
) -> AsyncIterator[RetoldTurn]:
    """Yield turns of the path in the form that the client shows now."""
    places = {each.message.message_id: at for at, each in enumerate(path.stored)}
    end = path.stored[verdict.last].depth if verdict.last >= 0 else 0
    for record in records:
        if record.depth > end:
            break
        kept, added = list[Message](), list[int]()
        for message in record.messages:
            at = places.get(message.message_id, -1)
            if at > verdict.last or at in verdict.deleted:
                continue
            shown = verdict.edits.get(at)
            kept.append(message if shown is None else _edited(message, said.before[shown]))
            added += verdict.added.get(at, ())
        if kept or not record.messages:
            yield RetoldTurn(copied=record, messages=tuple(kept))
        for turn in await elsewhere.tell(added):
            yield turn


def _edited(stored: Message, shown: Message) -> Message:
    """Return a stored message with the client's text, and its pictures if it has any."""
    parts = {PARTS: shown.extra[PARTS]} if shown.extra.get(PARTS) else {}
    return replace(stored, content=shown.content, extra={**stored.extra, **parts})


class _TurnsElsewhere:
    """Turns outside of the kept path, by their exchange, with the messages before it.

    An exchange that comes back gets its ops again, if the messages before it are the same.
    """

    def __init__(self, runtime: Runtime, session_id: str, said: CallMessages, path: StoredPath) -> None:
        self._runtime, self._session_id, self._said, self._path = runtime, session_id, said, path
        self._known: dict[tuple[str, str], list[tuple[str, Sequence[MessageForm]]]] = {}
        self._stored = {pair.shown: path.forms[pair.stored] for pair in path.alignment.pairs}

    def read(self, paths: Sequence[StoredPath], verdict: Verdict) -> None:
        """Read the turns of all paths."""
        kept = {each.turn_id for each in self._path.stored[: verdict.last + 1]}
        for path in paths:
            for at, (said, reply) in enumerate(pairwise(path.stored)):
                mine, theirs = path.forms[at : at + 2]
                is_exchange = mine.role is Role.USER and theirs.role is Role.ASSISTANT and said.turn_id == reply.turn_id
                if is_exchange and reply.turn_id not in kept:
                    before = path.forms[max(at - MOST_BEFORE, 0) : at]
                    self._known.setdefault((mine.bare, theirs.bare), []).append((reply.turn_id, before))

    async def tell(self, places: Sequence[int]) -> list[RetoldTurn]:
        """Return the client's messages at these places as turns: copies of turns on other branches, and new ones."""
        turns, new, at = list[RetoldTurn](), list[Message](), 0
        while at < len(places):
            turn_id = self._find(places[at])
            if turn_id is None:
                new.append(self._said.before[places[at]])
            if new and (turn_id is not None or at + 1 == len(places)):
                turns.append(RetoldTurn(messages=tuple(new)))
                new = []
            if turn_id is not None:
                record = await self._runtime.store.turn(self._session_id, turn_id)
                turns.append(RetoldTurn(copied=record, messages=record.messages))
            at += 1 if turn_id is None else 2
        return turns

    def _find(self, place: int) -> str | None:
        forms = self._said.forms
        if place + 1 >= len(forms) or (forms[place].role, forms[place + 1].role) != (Role.USER, Role.ASSISTANT):
            return None
        found = self._known.get((forms[place].bare, forms[place + 1].bare), ())
        return next((turn_id for turn_id, before in found if self._follows(place, before)), None)

    def _follows(self, place: int, before: Sequence[MessageForm]) -> bool:
        """Return whether these messages precede a place, in their present or their stored form."""
        pairs = zip(range(place - 1, -1, -1), reversed(before), strict=False)
        forms = ((self._said.forms[at], self._stored.get(at), theirs) for at, theirs in pairs)
        return all(_is_version(mine, theirs) or (own and _is_version(own, theirs)) for mine, own, theirs in forms)


def _is_version(mine: MessageForm, theirs: MessageForm) -> bool:
    return mine.role is theirs.role and (mine.says_same(theirs) or mine.likeness(theirs) >= LEAST_LIKE_REPLY)


def _count_shown(path: StoredPath, verdict: Verdict) -> int:
    """Return how many of the newest messages of the present path the client shows without a gap."""
    found = path.alignment
    shown = {pair.stored for pair in (*found.pairs, *found.moved)}
    count, at = len(verdict.appended), verdict.last
    while at in shown or at in verdict.deleted:
        count += (at not in verdict.deleted) + len(verdict.added.get(at, ()))
        at -= 1
    return count + found.run if at + 1 == found.end_of_run else count


def _count_turns(path: StoredPath, said: CallMessages, verdict: Verdict, shown: int) -> int:
    """Return how many of the newest turns of the present path the client certainly shows completely."""
    first = verdict.last + 1 - max(shown - len(verdict.appended), 0)
    kept = [each.depth for each in path.stored[max(first - 1, 0) : verdict.last + 1]]
    count = max(kept[-1] - kept[0] - len(verdict.deleted) + (first <= 0), 0) if kept else 0
    return count + sum(said.before[at].role is Role.USER for at in verdict.appended)


async def _place_alone(runtime: Runtime, session_id: str, said: CallMessages, opening: frozenset[str]) -> CallPlace:
    """Return the position of a message that a client sends without any other in a session that it names: the session continues."""
    window = await runtime.store.window(session_id, message_limit=2)
    stored = spoken(window.messages, opening)
    is_again = len(stored) == 2 and form_of(stored[0].message).is_same(said.user_form)
    return CallPlace(
        user=said.user, shown=0, is_cut=window.head.depth > 0, again_turn=stored[0].turn_id if is_again else None
    )


async def _place_of_viewer(runtime: Runtime, session_id: str, said: CallMessages, opening: frozenset[str]) -> CallPlace:
    """Return the position of a viewer's message: after all messages, including those of others.

    It repeats the newest turn's input if that turn is the viewer's and the client does not show its reply.
    """
    window = await runtime.store.window(session_id, message_limit=len(said.before) + SPARE)
    stored = tuple(
        each for each in spoken(window.messages, opening) if may_read(read_audience(each.message.extra), said.viewer)
    )
    forms = await calculate(forms_of, stored, size=len(stored) * MESSAGE_CHARS)
    newest = window.previous if window.pending is None else None
    asked = None if newest is None or viewer_of(newest) != said.viewer else find_input(newest)
    again_turn = None
    goes_on = bool(said.forms and forms and said.forms[-1].is_same(forms[-1]))
    if newest is not None and asked is not None and form_of(asked).is_same(said.user_form) and not goes_on:
        again_turn = newest.turn_id
        count = sum(each.turn_id != again_turn for each in stored)
        stored, forms = stored[:count], forms[:count]
    pairs = zip(said.forms[::-1], forms[::-1], strict=False)
    shown = next(
        (at for at, (mine, theirs) in enumerate(pairs) if not mine.is_same(theirs)), min(len(said.forms), len(forms))
    )
    return CallPlace(
        user=said.user,
        shown=shown,
        shown_turns=stored[-1].depth - stored[-shown].depth if shown else 0,
        is_cut=shown < len(forms),
        again_turn=again_turn,
    )


async def _adopt(runtime: Runtime, session_id: str, messages: Sequence[Message]) -> None:
    if not messages:
        return
    head = await runtime.store.head(session_id)
    marked = await calculate(_mark, head, messages, size=MESSAGE_CHARS * len(messages))
    await runtime.engine.adopt_messages(session_id, marked)


def _mark(head: SessionHead, messages: Sequence[Message]) -> list[Message]:
    """Return messages with ids; the same words may occur again later, so the place is part of the id."""
    return [
        replace(each, message_id=hashlib.sha256(f"{head.branch_id}\0{head.turn_id}\0{at}".encode()).hexdigest()[:16])
        for at, each in enumerate(messages)
    ]
