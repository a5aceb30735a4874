"""Paths of a stored session next to a client's messages: the active branch, and others that may explain the call better."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jacquard.service.proxy.alignment import Alignment, align
from jacquard.service.proxy.client_lines import split_merged
from jacquard.service.proxy.conversation import MESSAGE_CHARS, Said
from jacquard.service.proxy.message_forms import MessageForm, form_of
from jacquard.wiring.runtime import Runtime
from mnemosyne.chains.session_start import prologue_turn_id
from mnemosyne.core.errors import SessionNotFoundError
from mnemosyne.core.off_loop import calculate, size_of
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.session import Message, Role, SessionHead, WindowMessage

SPARE, DEEP = 40, 4_000
"""Number of stored messages that are read beyond as many as the client shows; the second, where none of them is known."""
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

    @property
    def messages(self) -> Iterator[Message]:
        """The stored messages, without their places."""
        return (each.message for each in self.stored)


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
    size = size_of(*(each.text for each in shown))
    for limit in (len(shown) + SPARE, len(shown) + DEEP):
        window = await runtime.store.window(session_id, message_limit=limit, branch_id=branch_id)
        stored = spoken(window, opening)
        work = len(stored) * MESSAGE_CHARS
        forms = await calculate(forms_of, stored, size=work)
        found = await calculate(align, shown, forms, size=size + work)
        is_whole = len(window.messages) < limit or (bool(stored) and stored[0].depth == len(opening) + 1)
        if found.pairs or is_whole or not shown:
            break
    return StoredPath(
        branch_id=window.head.branch_id,
        stored=stored,
        forms=forms,
        alignment=found,
        is_whole=is_whole,
        is_active=branch_id is None,
    )


def forms_of(stored: Sequence[WindowMessage]) -> tuple[MessageForm, ...]:
    """Return the forms of stored messages."""
    return tuple(form_of(each.message) for each in stored)


def spoken(window: SessionWindow, opening: frozenset[str] = frozenset()) -> tuple[WindowMessage, ...]:
    """Return what was said in other turns than those of `opening`."""
    kept = (each for each in window.messages if each.turn_id not in opening)
    return tuple(each for each in kept if each.message.role in (Role.USER, Role.ASSISTANT))


async def split_said(runtime: Runtime, session_id: str, said: Said, opening: frozenset[str]) -> Said:
    """Return what was said, with the messages apart that a client merged into one of the user."""
    count = len(said.user_form.lines)
    if said.before or count < 2:
        return said
    for head in await _newest_branches(runtime, session_id):
        window = await runtime.store.window(session_id, message_limit=count + SPARE, branch_id=head.branch_id)
        forms = forms_of(spoken(window, opening))
        *before, user = await calculate(split_merged, said.user, forms, size=said.size + len(forms) * MESSAGE_CHARS)
        if before:
            return said.with_messages(before, user)
    return said
