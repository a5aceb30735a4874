"""Compares a client's messages with stored sessions: finds the branch that explains the messages best, and the session
of a conversation that the client did not name.

A path is the sequence of messages on one branch. A form is a message prepared for comparison (`MessageForm`). An
alignment states which message of the client is which stored message.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from uuid import uuid4
from weakref import WeakKeyDictionary

from jacquard.pipeline.evidence.context_blocks import CONTEXT_BLOCKS, is_made_by_engine
from jacquard.pipeline.record.stored_turn import viewer_of
from jacquard.service.proxy.alignment import REPLACED_COST, Alignment, Relation, align_behind_run, relate
from jacquard.service.proxy.client_lines import split_merged
from jacquard.service.proxy.conversation import MESSAGE_CHARS, OWNED, CallMessages, begun_sessions, may_hold
from jacquard.service.proxy.message_forms import MessageForm, form_of, informative_words
from jacquard.wiring.runtime import Runtime
from mnemosyne.chains.messages.exchanges import digest_of, exchange_digests
from mnemosyne.chains.messages.message_parts import USER_ID
from mnemosyne.chains.session_start import prologue_turn_id
from mnemosyne.core.errors import SessionNotFoundError
from mnemosyne.core.off_loop import calculate
from mnemosyne.privacy.forget import TEXT_CACHES
from mnemosyne.protocols import Store
from mnemosyne.schema.query import EvidenceFilter
from mnemosyne.schema.session import Role, SessionHead, WindowMessage
from mnemosyne.values import dataclass

SPARE, DEEP = 40, 4_000
"""Number of stored messages that are read in addition to the number of messages that the client shows. DEEP is used in
a second attempt, if SPARE finds no message of the client.
"""
MOST_REMEMBERED = 100_000
"""Maximum number of messages that are cached for one store."""
MOST_BRANCHES = 30
CLEARLY_BETTER = 0.5
"""Minimum difference in alignment cost by which another branch must be cheaper than the active branch to be preferred
to it.
"""

MOST_ALIKE = 8
"""Maximum number of sessions that are compared with a conversation in each of three ways: by exchanges, by replies, by
beginning.
"""
MOST_DIGESTS = 64
"""Maximum number of the newest exchanges (user message and reply) that are looked up in the store."""
LEAST_WORDS, LEAST_WORDS_OF_ENDS, LEAST_WORDS_OF_ONLY, LEAST_EXCHANGES = 5, 3, 2, 3
"""Minimum numbers of uncommon words that must agree if two conversations are to count as one.

LEAST_WORDS applies in general. LEAST_WORDS_OF_ENDS is enough if at least LEAST_EXCHANGES exchanges agree, including the
first and the newest stored ones. LEAST_WORDS_OF_ONLY is enough if the call continues at the end of the only conversation
that has its newest exchange.
"""
MOST_EVIDENCE = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredPath:
    """Path of a branch, aligned with the client's messages.

    `stored` are the newest messages of the path without other roles than user and assistant, and `forms` are the forms
    of these messages. `is_whole` is true if the path has no message before `stored`. `is_active` is true if the branch
    is the active one.
    """

    branch_id: str
    stored: tuple[WindowMessage, ...]
    forms: tuple[MessageForm, ...]
    alignment: Alignment
    is_whole: bool
    is_active: bool


async def session_exists(runtime: Runtime, session_id: str) -> bool:
    """Return whether a session with this id exists."""
    try:
        await runtime.store.head(session_id)
    except SessionNotFoundError:
        return False
    return True


async def opening_turns(runtime: Runtime, session_id: str) -> frozenset[str]:
    """Return the ids of the committed turns of the world's prologue, which come before the client's conversation."""
    prologue = (await runtime.world_of(session_id)).prologue
    turns = [prologue_turn_id(number) for number in range(1, len(prologue) + 1)]
    return await runtime.store.committed_turns(session_id, turns) if turns else frozenset()


async def find_paths(
    runtime: Runtime, session_id: str, shown: Sequence[MessageForm], opening: frozenset[str]
) -> list[StoredPath]:
    """Compare the client's messages with the paths (branches) of a session. Return the paths, the best match first.

    `shown` are the forms of the client's messages, and `opening` is the result of `opening_turns`. If the path of the
    active branch contains all messages, only this path is returned. Otherwise the active path is first, unless another
    path is better for one of these reasons:

    - Only the other path contains all messages.
    - The cost of the other path is lower by at least CLEARLY_BETTER.
    - The other path contains more of the messages, none of them edited, and its cost is not higher.
    """
    active = await look(runtime, session_id, shown, opening)
    if active.alignment.is_exact:
        return [active]
    heads = (await _newest_branches(runtime, session_id))[1:]
    others = [await look(runtime, session_id, shown, opening, head.branch_id) for head in heads]
    best = min(others, key=lambda path: (*_is_missing(path.alignment), path.alignment.cost), default=active)
    is_better = _is_missing(best.alignment) < _is_missing(active.alignment)
    has_more = best.alignment.known > active.alignment.known and not best.alignment.has_edits
    margin = 0.0 if has_more else CLEARLY_BETTER
    if not is_better and best.alignment.cost > active.alignment.cost - margin:
        best = active
    return [best, *(each for each in (active, *others) if each is not best)]


def _is_missing(found: Alignment) -> tuple[bool, bool]:
    """Return whether a path lacks a message of the client, and whether it lacks a part of one."""
    return not found.is_known, not found.is_exact


async def _newest_branches(runtime: Runtime, session_id: str) -> list[SessionHead]:
    """Return the active branch, then the most recently opened others, newest first."""
    active, *others = await runtime.store.branches(session_id)
    return [active, *others[: -MOST_BRANCHES - 1 : -1]]


async def look(
    runtime: Runtime,
    session_id: str,
    shown: Sequence[MessageForm],
    opening: frozenset[str],
    branch_id: str | None = None,
) -> StoredPath:
    """Return the path of the branch `branch_id` (None: the active branch), aligned with the client's messages.

    `shown` are the forms of the client's messages. Messages in the turns of `opening` are left out of the path.
    """
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
    """Newest messages of a path; the spoken ones are `stored`. `is_whole`: there are no older ones."""

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
        """Return the path with its new messages; None if these do not continue it."""
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
"""Recently read paths of each store, by session and branch (None: the active one)."""
TEXT_CACHES.append(_read_paths.clear)


async def _read_path(
    runtime: Runtime, session_id: str, branch_id: str | None, limit: int, opening: frozenset[str]
) -> _ReadPath:
    """Return the newest `limit` messages of a path; of a path in the cache, only new ones are read.

    The store returns an erased or masked message as another object, and then the whole path is read again.
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
    """Return the forms (for comparison) of stored messages."""
    return tuple(form_of(each.message) for each in stored)


def spoken(messages: Sequence[WindowMessage], opening: frozenset[str]) -> tuple[WindowMessage, ...]:
    """Return the messages of the user and the assistant, except those in the turns of `opening`."""
    kept = (each for each in messages if each.turn_id not in opening)
    return tuple(each for each in kept if each.message.role in (Role.USER, Role.ASSISTANT))


async def split_said(runtime: Runtime, session_id: str, said: CallMessages, opening: frozenset[str]) -> CallMessages:
    """Return the call `said` with separate messages, if the client merged several messages into one user message.

    If nothing was merged, or no stored message of the session is found in the user message, `said` is returned
    unchanged. `opening` is the result of `opening_turns`.
    """
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


async def find_session(runtime: Runtime, said: CallMessages) -> str:
    """Return the id of the session for a conversation whose session the client did not name. If no stored session fits,
    the id is that of a new session, which is not created here.

    The store's index of exchanges (user message and reply) finds the sessions with the same exchanges, whatever the
    client leaves out. The session with the most common exchanges is taken, unless it may belong to another conversation
    that contains the same exchanges. A new session is named by the beginning of the conversation, up to the user's
    first message. Equal beginnings are numbered.
    """
    begun, *others = await calculate(begun_sessions, said, size=said.size)
    tried: set[str] = set()
    async for session_id, is_only in _candidates(runtime, said):
        tried.add(session_id)
        if await _is_same(runtime, session_id, said, is_only=is_only):
            return session_id
    for name in others:
        if name not in tried and await session_exists(runtime, name) and await _is_same(runtime, name, said):
            return name
    for number in range(1, MOST_ALIKE + 1):
        name = begun if number == 1 else f"{begun}-{number}"
        if name not in tried and (not await session_exists(runtime, name) or await _is_same(runtime, name, said)):
            return name
    return f"{begun}-{uuid4().hex[:8]}"


async def _candidates(runtime: Runtime, said: CallMessages) -> AsyncIterator[tuple[str, bool]]:
    """Yield the candidates for a conversation's session, the likeliest first: by exchanges, then by replies.

    Each comes with whether it is the only one with the newest exchange.
    """
    tried: set[str] = set()
    for digests in await calculate(_digests_of, said, size=said.size):
        found = await runtime.store.find_exchanges(digests[-MOST_DIGESTS:]) if digests else frozenset()
        known = Counter(name for _, name in found if name not in tried and may_hold(name, said))
        newest = [name for digest, name in found if digest == digests[-1]]
        for name, _ in sorted(known.items(), key=lambda each: (-each[1], each[0]))[:MOST_ALIKE]:
            tried.add(name)
            yield name, [name] == newest


def _digests_of(said: CallMessages) -> tuple[list[str], list[str]]:
    """Return the digests of the exchanges that a client shows, and of the replies; lines may be replies that it merged."""
    newest = said.before[-3 * MOST_DIGESTS :]
    found = list(exchange_digests(newest))
    exchanges = [digest for at, digest in found if newest[at].role is Role.USER]
    replies = [digest for at, digest in found if newest[at].role is Role.ASSISTANT]
    lines = said.user_form.lines[:-1] if not said.before else ()
    return exchanges, [*(digest_of([bare]) for _, bare in lines), *replies]


async def _is_same(runtime: Runtime, session_id: str, said: CallMessages, *, is_only: bool = False) -> bool:
    """Return whether a call continues an unnamed conversation, or may share its beginning.

    It continues if both agree in words that few conversations have. If they agree in less (a greeting, thanks), they may be two
    conversations: the call may share a beginning that it shows completely, because all later turns are on their own branches.
    It may not share anything that the client does not show: neither earlier messages, nor results found in its turns or given
    to the session.
    """
    opening = await opening_turns(runtime, session_id)
    said = await split_said(runtime, session_id, said, opening)
    best = (await find_paths(runtime, session_id, said.forms, opening))[0]
    if said.viewer is None and await _is_of_another(runtime, session_id, said, best):
        return False
    words = LEAST_WORDS_OF_ENDS if _shows_ends(best) else LEAST_WORDS
    if is_only and _goes_on_at_end(said, best):
        words = LEAST_WORDS_OF_ONLY
    if await calculate(_agree_in_words, said, best, words, size=said.size):
        return True
    shared = best.alignment.run + len({pair.stored for pair in best.alignment.pairs})
    if not _shows_beginning(said, best):
        return False
    window = await runtime.store.window(session_id, message_limit=1, branch_id=best.branch_id)
    turns = {each.turn_id for each in best.stored[:shared]}
    if window.pending is not None and shared == len(best.stored):
        turns.add(window.pending.turn_id)
    where = EvidenceFilter(without_memories=True, limit=MOST_EVIDENCE, newest=True, branch_id=best.branch_id)
    found = await runtime.store.list_evidences(session_id, where)
    is_hidden = any((each.links.turn_id or "") in {"", *turns} and not said.shows(each) for each in found)
    blocks = await runtime.store.list_context_blocks(session_id, CONTEXT_BLOCKS)
    return not (is_hidden or window.tasks or len(found) == MOST_EVIDENCE or not all(map(is_made_by_engine, blocks)))


async def _is_of_another(runtime: Runtime, session_id: str, said: CallMessages, best: StoredPath) -> bool:
    """Return whether a session belongs to another person than a call names, or to a viewer.

    A client may start or stop naming a person; the conversation is still the same.
    """
    told = (str(each.message.extra.get(USER_ID, "")) for each in reversed(best.stored))
    if said.user_id and next(filter(None, told), said.user_id) != said.user_id:
        return True
    if not session_id.startswith(OWNED):
        return False
    newest = (await runtime.store.window(session_id, message_limit=0, branch_id=best.branch_id)).previous
    return newest is not None and viewer_of(newest) != runtime.engine.config.viewer


def _agree_in_words(said: CallMessages, found: StoredPath, least: int) -> bool:
    pairs = found.alignment.pairs[::-1]
    agreed = (said.forms[pair.shown] for pair in pairs if pair.relation is not Relation.EDITED)
    words: set[str] = set()
    for form in (*agreed, *said.forms[: found.alignment.run]):
        words |= informative_words(form)
        if len(words) >= least:
            return True
    return False


def _shows_ends(found: StoredPath) -> bool:
    """Return whether the client shows the first and the newest exchange of a path, and others between."""
    known = {pair.stored for pair in found.alignment.pairs if pair.relation is Relation.SAME}
    is_first, is_last = found.alignment.run or 0 in known, len(found.stored) - 1 in known
    return found.is_whole and len(known) >= 2 * LEAST_EXCHANGES and bool(is_first and is_last)


def _goes_on_at_end(said: CallMessages, found: StoredPath) -> bool:
    """Return whether all of a client's messages are the stored end of a path; its newest message may be answered again."""
    pairs = found.alignment.pairs
    if not found.alignment.is_exact or not pairs:
        return False
    rest = found.forms[pairs[-1].stored + 1 :]
    is_run = pairs[-1].stored - pairs[0].stored == pairs[-1].shown - pairs[0].shown
    return is_run and (not rest or (len(rest) <= 2 and rest[0].is_same(said.user_form)))


def _shows_beginning(said: CallMessages, found: StoredPath) -> bool:
    """Return whether the client shows all common messages from the beginning of a path on, most of them as stored."""
    pairs = found.alignment.pairs
    if not pairs:
        return True
    paired = {pair.stored for pair in pairs}
    # A client's constant instruction is shown as its newest message, and no longer at its old place.
    places = range(found.alignment.end_of_run, pairs[-1].stored)
    gaps = (at for at in places if at not in paired and not found.forms[at].is_same(said.user_form))
    edited = [pair for pair in pairs if pair.relation is Relation.EDITED]
    costs = (relate(said.forms[pair.shown], found.forms[pair.stored])[0] for pair in edited)
    is_other = 2 * len(edited) > len(pairs) or max(costs, default=0) >= REPLACED_COST
    if not found.is_whole or is_other or next(gaps, None) is not None:
        return False
    shown = {line for form in (*said.forms, said.user_form) for line in form.lines}
    cut = (pair.stored for pair in pairs if pair.relation is Relation.CUT)
    return all(shown.issuperset(found.forms[at].lines) for at in cut)
