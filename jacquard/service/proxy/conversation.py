"""Finds the session of a call and brings it to where the client's messages are."""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from jacquard.pipeline.evidence.context_blocks import CONTEXT_BLOCKS, is_made_by_engine
from jacquard.pipeline.record.stored_turn import viewer_of
from jacquard.pipeline.worlds import build_bare_world
from jacquard.service.ids import check_id
from jacquard.service.proxy.alignment import (
    MessageForm,
    align,
    count_agreeing,
    exchanges_of,
    form_of,
    informative_words,
)
from jacquard.service.proxy.requests.chat_request import ChatRequest, text_of
from jacquard.service.proxy.requests.headers import SESSION_HEADERS, read_header
from jacquard.turns.writing.branches import find_input
from jacquard.wiring.runtime import Runtime
from mnemosyne.chains.audience import may_read, read_audience
from mnemosyne.chains.messages.message_parts import USER_ID, message_from_chat
from mnemosyne.chains.session_start import prologue_turn_id
from mnemosyne.core.errors import SessionExistsError, SessionNotFoundError
from mnemosyne.core.off_loop import calculate, size_of
from mnemosyne.evidence.ingestor import RECALLED
from mnemosyne.evidence.redactions import redaction_of
from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.query import EvidenceFilter
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.session import Message, Role, SessionHead, WindowMessage

PREFIX = "chat-"
"""How ids of sessions begin that no client named."""

MESSAGE_CHARS = 400
"""As how many characters of work a message counts, when it is decided whether a thread does it."""
SPARE, DEEP = 40, 4_000
"""How many stored messages are read beside those that the client shows; the second, where none of them is known."""
MOST_BRANCHES, MOST_EDITS = 30, 8
MOST_REWRITTEN = 400
"""How many messages may follow an edited one; each of their turns is written once more."""

MOST_EXCHANGES, MOST_SESSIONS = 50_000, 500
MOST_ALIKE = 8
"""Maximum number of remembered sessions whose conversations contain the same exchange."""
LEAST_WORDS = 5
"""Minimum number of uncommon words that must agree for two conversations to be one."""
MOST_EVIDENCE = 50
_BEGUN_CHARS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """What was said in a call: the messages before the user's newest one, and that one, with their forms.

    `named` is the session that the client names, `viewer` the one of the caller's token, `user_id` the person whom a client
    without a viewer names (''), whose facts are recalled. `results` are those of tools that the client shows, by the ids of their
    calls.
    """

    before: tuple[Message, ...]
    user: Message
    forms: tuple[MessageForm, ...]
    user_form: MessageForm
    named: str | None = None
    viewer: str | None = None
    user_id: str = ""
    results: Mapping[str, str] = field(default_factory=lambda: EMPTY)

    @property
    def owner(self) -> str | None:
        """The one whose conversations without a name are looked through: a viewer, a person, or nobody in particular."""
        return self.viewer if self.viewer is not None or not self.user_id else f"\0{self.user_id}"

    @property
    def size(self) -> int:
        """Cost of a pass over all that was said, in characters for `calculate`."""
        return size_of(self.user_form.text, *(each.text for each in self.forms)) + MESSAGE_CHARS * len(self.forms)

    def shows(self, evidence: Evidence) -> bool:
        """Return whether the client shows the result of a tool that an evidence item is; one that was changed when it was taken in
        (masked, or without what it repeated) is known by the id of its call.
        """
        call_id = (evidence.links.tool_call_id or "").removeprefix(f"{evidence.links.turn_id}.")
        if redaction_of(evidence) is not None or RECALLED in evidence.metadata:
            return call_id in self.results
        return self.results.get(call_id) == evidence.content


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """Where a call stands in its session: the user's message, and how many of the stored messages the client shows before it.

    `is_cut`: the client leaves older messages out. `again_turn` is the turn whose input is answered once more.
    """

    user: Message
    shown: int
    is_cut: bool = False
    again_turn: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    """A branch beside the client's messages, which begin at `start`; `length` of them agree."""

    branch_id: str
    stored: tuple[WindowMessage, ...]
    start: int
    length: int
    is_whole: bool
    forms: tuple[MessageForm, ...]

    @property
    def end(self) -> int:
        return self.start + self.length

    def ends_with(self, said: Said) -> bool:
        """Return whether the client's last message before the user's newest stands where the branch ends."""
        return bool(self.stored) and self.start + len(said.before) == len(self.stored)

    def edited(self, said: Said) -> WindowMessage | None:
        """Return the stored message that the client shows with another text, where all that follows it agrees."""
        if self.length == len(said.before) or not self.ends_with(said) or len(self.stored) - self.end > MOST_REWRITTEN:
            return None
        mine, theirs = said.forms[self.length], self.forms[self.end]
        rest = zip(said.forms[self.length + 1 :], self.forms[self.end + 1 :], strict=True)
        is_text_alone = mine.role is theirs.role and mine.parts == theirs.parts and mine.text
        return self.stored[self.end] if is_text_alone and sum(not a.is_same(b) for a, b in rest) < MOST_EDITS else None


async def read_said(headers: Mapping[str, str], request: ChatRequest, viewer: str | None = None) -> Said:
    """Return what was said up to the user's newest message; there has to be one. ValueError for content that is none; ConfigError
    for a session that cannot have the name that the client gives.
    """
    assert request.last_user is not None
    heard, named = request.messages[: request.last_user + 1], _named_session(headers, request)
    if named is not None:
        check_id("session_id", named)
    user_id = "" if viewer is not None else request.user_id
    said = await calculate(_read_said, heard, named, user_id, size=len(heard) * MESSAGE_CHARS + size_of(heard))
    results = {call_id: text_of(each.get("content")) for call_id, each in request.results}
    author = said.user.author
    # A viewer speaks as itself: a prompt shows the facts about its user.
    user = said.user if viewer is None or author is None or author.id == viewer else replace(said.user, author=None)
    return replace(said, user=user, viewer=viewer, results=results)


def expected_session(headers: Mapping[str, str], request: ChatRequest) -> str:
    """Return the session that a call probably belongs to: the one that the client names, or the one that it would begin; empty for
    content that is none. A client that leaves the beginning of a conversation out gets another one than `SessionFinder` finds.
    """
    assert request.last_user is not None
    try:
        named = _named_session(headers, request)
        heard = request.messages[: request.last_user + 1]
        return named or _begun_session(_read_said(heard, None, request.user_id))
    except ValueError:
        return ""


def _read_said(messages: Sequence[Mapping[str, Any]], named: str | None, user_id: str) -> Said:
    kept = (each for each in messages if each.get("role") in ("user", "assistant") and not each.get("tool_calls"))
    said = [message_from_chat(each) for each in kept]
    forms = [form_of(each) for each in said]
    before, user = tuple(said[:-1]), said[-1]
    if user_id:
        user = replace(user, extra={**user.extra, USER_ID: user_id})
    return Said(before=before, user=user, forms=tuple(forms[:-1]), user_form=forms[-1], named=named, user_id=user_id)


def _named_session(headers: Mapping[str, str], request: ChatRequest) -> str | None:
    named = [*(read_header(headers, name) for name in SESSION_HEADERS), request.metadata.get("session_id")]
    return next((each for each in named if isinstance(each, str) and each.strip()), None)


class SessionFinder:
    """Finds the sessions of conversations that have no name.

    A new one is named by its beginning, up to the user's first message. A client that leaves the beginning out shows later
    exchanges; the session that has most of them is the conversation's, unless others may have said the same (`_is_same`). Exchanges
    are remembered for each process, and looked up in the store where they are not (another process served the conversation, or the
    service was started in between).
    """

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[str, str], tuple[str, ...]] = OrderedDict()

    def note(self, tenant: str, session_id: str, forms: Sequence[MessageForm]) -> None:
        """Remember the exchanges of a session."""
        if not session_id.startswith(PREFIX):
            return
        for exchange in (_begun_of(session_id), *exchanges_of(forms)):
            others = self._sessions.get((tenant, exchange), ())
            kept = (session_id, *(each for each in others if each != session_id))
            self._sessions[tenant, exchange] = kept[:MOST_ALIKE]
            self._sessions.move_to_end((tenant, exchange))
        while len(self._sessions) > MOST_EXCHANGES:
            self._sessions.popitem(last=False)

    async def find(self, runtime: Runtime, tenant: str, said: Said) -> str:
        """Return the session of a conversation; that of a new one is not yet there."""
        begun = await calculate(_begun_session, said, size=said.size)
        async for session_id in self._candidates(runtime, tenant, said, begun):
            if await _is_same(runtime, session_id, said):
                return session_id
        return f"{begun}-{uuid4().hex[:8]}" if await _exists(runtime, begun) else begun

    async def _candidates(self, runtime: Runtime, tenant: str, said: Said, begun: str) -> AsyncIterator[str]:
        """Yield the sessions that may be that of a conversation, the likeliest first."""
        shown = list(exchanges_of(said.forms))
        found = Counter(name for exchange in shown for name in self._sessions.get((tenant, exchange), ()))
        known = [name for name, _ in found.most_common()] + [*self._sessions.get((tenant, begun), ()), begun]
        tried = [name for name in dict.fromkeys(known) if _is_for(name, said.owner) and await _exists(runtime, name)]
        for name in tried:
            yield name
        if not shown:
            return
        named = [each for each in await runtime.store.sessions() if _is_for(each, said.owner)]
        for session_id in named[:MOST_SESSIONS]:
            window = await runtime.store.window(session_id, message_limit=SPARE)
            forms = [form_of(each.message) for each in _spoken(window)]
            self.note(tenant, session_id, forms)
            if not set(shown).isdisjoint(exchanges_of(forms)):
                yield session_id


def _prefix_of(owner: str | None) -> str:
    return PREFIX if owner is None else f"{PREFIX}of-{hashlib.sha256(owner.encode()).hexdigest()[:8]}-"


def _is_for(session_id: str, owner: str | None) -> bool:
    """Return whether a session without a name holds conversations of an owner (`Said.owner`)."""
    is_owned = session_id.startswith(f"{PREFIX}of-")
    return session_id.startswith(_prefix_of(owner)) and is_owned is (owner is not None)


def _begun_session(said: Said) -> str:
    forms = [*said.forms, said.user_form]
    first = next(at for at, each in enumerate(forms) if each.role is Role.USER)
    words = "\0".join(f"{each.role}\0{each.text}\0{each.parts}" for each in forms[: first + 1])
    return f"{_prefix_of(said.owner)}{hashlib.sha256(words.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _begun_of(session_id: str) -> str:
    """Return the name that conversations with the same beginning share."""
    head, _, last = session_id.rpartition("-")
    return session_id if len(last) == _BEGUN_CHARS else head


async def _is_same(runtime: Runtime, session_id: str, said: Said) -> bool:
    """Return whether a call goes on with a conversation without a name, or may share its beginning.

    It does where both agree in words that few conversations have. Where they agree in less (a greeting, thanks), they may be two
    conversations: the call may share a beginning that it shows whole, because all that follows is on branches of their own, but
    nothing that the client does not show: neither messages before it, nor what was found in its turns or given to the session.
    """
    opening = await _opening_of(runtime, session_id)
    best = (await _find_best(runtime, session_id, said, opening))[1]
    if len(await calculate(_agreed_words, said, best, size=said.size)) >= LEAST_WORDS:
        return True
    if best.start or (best.length and best.stored[0].depth > len(opening) + 1):
        return False
    window = await runtime.store.window(session_id, message_limit=1, branch_id=best.branch_id)
    shared = {each.turn_id for each in best.stored[: best.length]}
    if window.pending is not None and best.length == len(best.stored):
        shared.add(window.pending.turn_id)
    where = EvidenceFilter(without_memories=True, limit=MOST_EVIDENCE, newest=True, branch_id=best.branch_id)
    found = await runtime.store.list_evidences(session_id, where)
    is_hidden = any((each.links.turn_id or "") in {"", *shared} and not said.shows(each) for each in found)
    blocks = await runtime.store.list_context_blocks(session_id, CONTEXT_BLOCKS)
    return not (is_hidden or window.tasks or len(found) == MOST_EVIDENCE or not all(map(is_made_by_engine, blocks)))


def _agreed_words(said: Said, found: _Found) -> frozenset[str]:
    beside = zip(said.forms, found.forms[found.start :], strict=False)
    return informative_words(mine for mine, theirs in beside if mine.is_same(theirs))


async def _exists(runtime: Runtime, session_id: str) -> bool:
    try:
        await runtime.store.head(session_id)
    except SessionNotFoundError:
        return False
    return True


async def ensure_session(runtime: Runtime, session_id: str) -> None:
    """Start the session where there is none: from the world of the service, or without a world."""
    if not await _exists(runtime, session_id):
        with suppress(SessionExistsError):
            await runtime.engine.start_session(session_id, runtime.opening or build_bare_world("bare"))


async def place(runtime: Runtime, session_id: str, said: Said) -> Placed:
    """Bring the session to where the client's messages are, and return the place of the user's newest message.

    An edited message is edited, and all that follows it stays. A branch that agrees further than the active one becomes the active
    one. What else differs is a branch of its own, from the first message on that differs. A viewer's token changes nothing of what
    was said.
    """
    engine = runtime.engine
    opening = await _opening_of(runtime, session_id)
    if said.viewer is not None:
        return await _place_of_viewer(runtime, session_id, said, opening)
    if said.named and not said.before:
        return await _place_alone(runtime, session_id, said, opening)
    found = await _find(runtime, session_id, said, opening)
    for _ in range(MOST_EDITS):
        edited = found.edited(said)
        if edited is None:
            break
        await engine.edit_message(session_id, edited.message.message_id, said.before[found.length].content)
        found = await _find(runtime, session_id, said, opening)
    length, is_cut = found.length, found.start > 0 or not found.is_whole or bool(opening)
    if found.end < len(found.stored):
        answered = found.stored[found.end]
        is_newest = found.end + 2 == len(found.stored) and found.forms[found.end].is_same(said.user_form)
        if is_newest and length == len(said.before):
            return Placed(user=said.user, shown=length, is_cut=is_cut, again_turn=answered.turn_id)
        before = max(opening, key=lambda turn_id: (len(turn_id), turn_id), default=None)
        if found.end:
            before = (await runtime.store.turn(session_id, answered.turn_id)).parent_id
        await engine.rollback(session_id, before)
        # What stands in the same turn before it.
        same = [each.message for each in found.stored[: found.end] if each.turn_id == answered.turn_id]
        await _adopt(runtime, session_id, [*same, *said.before[length:]])
    else:
        await _adopt(runtime, session_id, said.before[length:])
    return Placed(user=said.user, shown=len(said.before), is_cut=is_cut)


async def _opening_of(runtime: Runtime, session_id: str) -> frozenset[str]:
    """Return the turns with which the session's world begins, before the client's conversation does."""
    prologue = (await runtime.world_of(session_id)).prologue
    turns = [prologue_turn_id(number) for number in range(1, len(prologue) + 1)]
    return await runtime.store.committed_turns(session_id, turns) if turns else frozenset()


async def _place_alone(runtime: Runtime, session_id: str, said: Said, opening: frozenset[str]) -> Placed:
    """Return the place of a message that a client sends without any other, in a session that it names: it goes on."""
    window = await runtime.store.window(session_id, message_limit=2)
    stored = _spoken(window, opening)
    is_again = len(stored) == 2 and form_of(stored[0].message).is_same(said.user_form)
    return Placed(
        user=said.user, shown=0, is_cut=window.head.depth > 0, again_turn=stored[0].turn_id if is_again else None
    )


async def _place_of_viewer(runtime: Runtime, session_id: str, said: Said, opening: frozenset[str]) -> Placed:
    """Return the place of a viewer's message: behind all that was said, which others said too, or once more at the newest turn, if
    that is the viewer's and the client does not show its reply.
    """
    window = await runtime.store.window(session_id, message_limit=len(said.before) + SPARE)
    spoken = _spoken(window, opening)
    stored = tuple(each for each in spoken if may_read(read_audience(each.message.extra), said.viewer))
    forms = await calculate(_forms_of, stored, size=len(stored) * MESSAGE_CHARS)
    newest = window.previous if window.pending is None else None
    asked = None if newest is None or viewer_of(newest) != said.viewer else find_input(newest)
    again_turn = None
    goes_on = bool(said.forms and forms and said.forms[-1].is_same(forms[-1]))
    if newest is not None and asked is not None and form_of(asked).is_same(said.user_form) and not goes_on:
        again_turn = newest.turn_id
        forms = tuple(form for form, each in zip(forms, stored, strict=True) if each.turn_id != again_turn)
    shown = count_agreeing(said.forms[::-1], forms[::-1])
    return Placed(user=said.user, shown=shown, is_cut=shown < len(forms), again_turn=again_turn)


async def _adopt(runtime: Runtime, session_id: str, messages: Sequence[Message]) -> None:
    if not messages:
        return
    head = await runtime.store.head(session_id)
    marked = await calculate(_mark, head, messages, size=MESSAGE_CHARS * len(messages))
    await runtime.engine.adopt_messages(session_id, marked)


def _mark(head: SessionHead, messages: Sequence[Message]) -> list[Message]:
    """Return messages with ids; the same words may be said again later, so the place is part of the id."""
    return [
        replace(each, message_id=hashlib.sha256(f"{head.branch_id}\0{head.turn_id}\0{at}".encode()).hexdigest()[:16])
        for at, each in enumerate(messages)
    ]


async def _find(runtime: Runtime, session_id: str, said: Said, opening: frozenset[str]) -> _Found:
    """Return the branch that agrees furthest with the client's messages, made the active one."""
    active, best = await _find_best(runtime, session_id, said, opening)
    if best.branch_id != active.branch_id:
        await runtime.engine.switch(session_id, best.branch_id)
    return best


async def _find_best(runtime: Runtime, session_id: str, said: Said, opening: frozenset[str]) -> tuple[_Found, _Found]:
    """Return the active branch, and the branch that agrees furthest with the client's messages."""

    def worth(found: _Found) -> tuple[int, bool]:
        return found.length, found.ends_with(said)

    active = best = await _look(runtime, session_id, said, opening, None)
    if active.length < len(said.before):
        heads = (await runtime.store.branches(session_id))[1:]
        for head in heads[: -MOST_BRANCHES - 1 : -1]:
            best = max(best, await _look(runtime, session_id, said, opening, head.branch_id), key=worth)
    return active, best


async def _look(
    runtime: Runtime, session_id: str, said: Said, opening: frozenset[str], branch_id: str | None
) -> _Found:
    """Return a branch beside the client's messages."""
    for limit in (len(said.before) + SPARE, len(said.before) + DEEP):
        window = await runtime.store.window(session_id, message_limit=limit, branch_id=branch_id)
        stored = _spoken(window, opening)
        forms = await calculate(_forms_of, stored, size=len(stored) * MESSAGE_CHARS)
        start, length = await calculate(align, said.forms, forms, size=said.size + MESSAGE_CHARS * len(forms))
        is_whole = len(window.messages) < limit
        if length or start or is_whole or not said.before:
            break
    branch = window.head.branch_id
    return _Found(branch_id=branch, stored=stored, start=start, length=length, is_whole=is_whole, forms=forms)


def _forms_of(stored: Sequence[WindowMessage]) -> tuple[MessageForm, ...]:
    return tuple(form_of(each.message) for each in stored)


def _spoken(window: SessionWindow, opening: frozenset[str] = frozenset()) -> tuple[WindowMessage, ...]:
    """Return what was said in other turns than those of `opening`."""
    kept = (each for each in window.messages if each.turn_id not in opening)
    return tuple(each for each in kept if each.message.role in (Role.USER, Role.ASSISTANT))
