"""Paths of a stored session next to a client's messages: the active branch, and others that may explain the call better."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from jacquard.service.proxy.alignment import Alignment, align_behind_run
from jacquard.service.proxy.client_lines import split_merged
from jacquard.service.proxy.conversation import MESSAGE_CHARS, Said
from jacquard.service.proxy.message_forms import MessageForm, form_of
from jacquard.wiring.runtime import Runtime
from mnemosyne.chains.session_start import prologue_turn_id
from mnemosyne.core.errors import SessionNotFoundError
from mnemosyne.core.off_loop import calculate
from mnemosyne.protocols import Store
from mnemosyne.schema.session import Role, SessionHead, WindowMessage

SPARE, DEEP = 40, 4_000
"""Number of stored messages that are read beyond as many as the client shows; the second, where none of them is known."""
MOST_REMEMBERED = 100_000
"""Number of messages of paths that are kept in memory for a store."""
MOST_BRANCHES = 30
CLEARLY_BETTER = 0.5
"""By how much less another branch has to cost than the active one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredPath:
    """A branch beside the client's messages. `is_whole`: its path begins with `stored`."""

    branch_id: str
    stored: tuple[WindowMessage, ...]
    forms: tuple[MessageForm, ...]
    alignment: Alignment
    is_whole: bool
    is_active: bool


async def session_exists(runtime: Runtime, session_id: str) -> bool:
    """Return whether there is a session with this id."""
    try:
        await runtime.store.head(session_id)
    except SessionNotFoundError:
        return False
    return True


async def opening_turns(runtime: Runtime, session_id: str) -> frozenset[str]:
    """Return the turns with which the session's world begins, before the client's conversation does."""
    prologue = (await runtime.world_of(session_id)).prologue
    turns = [prologue_turn_id(number) for number in range(1, len(prologue) + 1)]
    return await runtime.store.committed_turns(session_id, turns) if turns else frozenset()


async def find_paths(
    runtime: Runtime, session_id: str, shown: Sequence[MessageForm], opening: frozenset[str]
) -> list[StoredPath]:
    """Return the path that explains the client's messages best, then the others that were looked at.

    The active one is the best unless another is clearly better, or shows all as it is.
    """
    active = await look(runtime, session_id, shown, opening)
    if active.alignment.is_exact:
        return [active]
    heads = (await _newest_branches(runtime, session_id))[1:]
    others = [await look(runtime, session_id, shown, opening, head.branch_id) for head in heads]
    best = min(others, key=lambda path: (not path.alignment.is_exact, path.alignment.cost), default=active)
    if not best.alignment.is_exact and best.alignment.cost > active.alignment.cost - CLEARLY_BETTER:
        best = active
    return [best, *(each for each in (active, *others) if each is not best)]


async def _newest_branches(runtime: Runtime, session_id: str) -> list[SessionHead]:
    """Return the active branch, then the others that were opened last, the newest first."""
    active, *others = await runtime.store.branches(session_id)
    return [active, *others[: -MOST_BRANCHES - 1 : -1]]


async def look(
    runtime: Runtime,
    session_id: str,
    shown: Sequence[MessageForm],
    opening: frozenset[str],
    branch_id: str | None = None,
) -> StoredPath:
    """Return a branch (None: the active one) beside the client's messages."""
    for limit in (len(shown) + SPARE, len(shown) + DEEP):
        read = await _read_path(runtime, session_id, branch_id, limit, opening)
        work = (len(shown) + len(read.stored)) * MESSAGE_CHARS
        found = await calculate(align_behind_run, shown, read.forms, size=work)
        is_whole = read.is_whole or (bool(read.stored) and read.stored[0].depth == len(opening) + 1)
        if found.pairs or is_whole or not shown:
            break
    return StoredPath(
        branch_id=read.branch_id,
        stored=read.stored,
        forms=read.forms,
        alignment=found,
        is_whole=is_whole,
        is_active=branch_id is None,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _ReadPath:
    """The newest messages of a path; the spoken ones are `stored`. `is_whole`: there are no older ones."""

    branch_id: str
    messages: tuple[WindowMessage, ...]
    stored: tuple[WindowMessage, ...]
    forms: tuple[MessageForm, ...]
    is_whole: bool

    def newest(self, limit: int, opening: frozenset[str]) -> _ReadPath:
        """Return the newest `limit` messages."""
        if len(self.messages) <= limit:
            return self
        messages = self.messages[-limit:]
        first = len(self.stored) - len(spoken(messages, opening))
        return replace(self, messages=messages, stored=self.stored[first:], forms=self.forms[first:], is_whole=False)

    def go_on(self, branch_id: str, messages: Sequence[WindowMessage], opening: frozenset[str]) -> _ReadPath | None:
        """Return the path with what is new in its newest messages; None if these do not go on with it."""
        last = self.messages[-1].message
        end = next((at for at, each in enumerate(messages, 1) if each.message is last), 0)
        pairs = zip(messages[:end][::-1], self.messages[::-1], strict=False)
        if not end or any(mine.message is not theirs.message for mine, theirs in pairs):
            return None
        new = spoken(messages[end:], opening)
        return replace(
            self,
            branch_id=branch_id,
            messages=(*self.messages, *messages[end:]),
            stored=(*self.stored, *new),
            forms=(*self.forms, *forms_of(new)),
        )


_read_paths: WeakKeyDictionary[Store, OrderedDict[tuple[str, str | None], _ReadPath]] = WeakKeyDictionary()
"""The paths that were read last in each store, by session and branch (None: the active one)."""


async def _read_path(
    runtime: Runtime, session_id: str, branch_id: str | None, limit: int, opening: frozenset[str]
) -> _ReadPath:
    """Return the newest `limit` messages of a path; of one that was read before, only what is new is read.

    The store gives a message that was erased or masked as another object, and the whole path is read again.
    """
    held, key = _read_paths.setdefault(runtime.store, OrderedDict()), (session_id, branch_id)
    read, former = None, held.pop(key, None)
    if former is not None and former.messages and (former.is_whole or len(former.messages) >= limit - SPARE):
        window = await runtime.store.window(session_id, message_limit=SPARE, branch_id=branch_id)
        read = former.go_on(window.head.branch_id, window.messages, opening)
    if read is None or not (read.is_whole or len(read.messages) >= limit):
        window = await runtime.store.window(session_id, message_limit=limit, branch_id=branch_id)
        stored = spoken(window.messages, opening)
        forms = await calculate(forms_of, stored, size=len(stored) * MESSAGE_CHARS)
        read = _ReadPath(
            branch_id=window.head.branch_id,
            messages=window.messages,
            stored=stored,
            forms=forms,
            is_whole=len(window.messages) < limit,
        )
    held[key] = read
    count = sum(len(each.messages) for each in held.values())
    while count > MOST_REMEMBERED and len(held) > 1:
        count -= len(held.popitem(last=False)[1].messages)
    return read.newest(limit, opening)


def forms_of(stored: Sequence[WindowMessage]) -> tuple[MessageForm, ...]:
    """Return the forms of stored messages."""
    return tuple(form_of(each.message) for each in stored)


def spoken(messages: Sequence[WindowMessage], opening: frozenset[str]) -> tuple[WindowMessage, ...]:
    """Return what was said in other turns than those of `opening`."""
    kept = (each for each in messages if each.turn_id not in opening)
    return tuple(each for each in kept if each.message.role in (Role.USER, Role.ASSISTANT))


async def split_said(runtime: Runtime, session_id: str, said: Said, opening: frozenset[str]) -> Said:
    """Return what was said, with the messages apart that a client merged into one of the user."""
    count = len(said.user_form.lines)
    if said.before or count < 2:
        return said
    for head in await _newest_branches(runtime, session_id):
        window = await runtime.store.window(session_id, message_limit=count + SPARE, branch_id=head.branch_id)
        forms = forms_of(spoken(window.messages, opening))
        *before, user = await calculate(split_merged, said.user, forms, size=said.size + len(forms) * MESSAGE_CHARS)
        if before:
            return said.with_messages(before, user)
    return said
