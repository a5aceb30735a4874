"""Stored records of turns, and the windows that a store returns.

`plan`, `receipt` and `prompt` are JSON values made by the layers above: the store does not interpret them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mnemosyne.schema.document import Actor, Meta, ModelUsage, Summary, Task
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.memory import EMPTY, Chain, MemoryEntry
from mnemosyne.schema.session import Message, SessionHead, TurnKind, TurnStatus, WindowMessage

WINDOW_USAGES = 24


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionStart:
    """A session to create, with everything that comes from its world."""

    session_id: str
    world_id: str
    locale: str
    state: Mapping[str, Any]
    turns: tuple[ImportedTurn, ...] = ()
    """Committed in order as depths 1..n of branch `main`."""
    entries: tuple[MemoryEntry, ...] = ()
    """May name the turns by `turn_id` and depth."""
    at: datetime | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """Metadata of its document in addition to locale and time, such as the id of its `profile`."""
    evidences: tuple[Evidence, ...] = ()
    """Evidence from its start; `blocks` likewise."""
    blocks: tuple[ContextBlock, ...] = ()
    actor: Actor | None = None
    """Owner of the session."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedTurn:
    """A finished turn from a pack, a corpus or a chat. `alternatives` are other replies to the same message of the
    user.
    """

    turn_id: str
    messages: tuple[Message, ...]
    kind: TurnKind = TurnKind.NARRATIVE
    alternatives: tuple[tuple[Message, ...], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedBranch:
    """A branch to open after a committed turn (`after` None: before the first), with finished turns."""

    branch_id: str
    after: str | None
    turns: tuple[ImportedTurn, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportRequest:
    """A caller's wishes for a file of conversations; an importer ignores those that its format cannot use."""

    session_id: str | None = None
    """Session to make (None: named as in the file)."""
    only: str | None = None
    """The one session of the file to read (None: all)."""
    users: tuple[str, ...] = ()
    """Names of speakers who are users; `assistants` likewise."""
    assistants: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedConversation:
    """One session that was read; `notes` are sentences on omissions and guesses."""

    start: SessionStart
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedConversations:
    """The sessions of a file, in its order; `notes` are sentences on the whole file."""

    conversations: tuple[ImportedConversation, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnRecord:
    """One turn as stored."""

    turn_id: str
    session_id: str
    branch_id: str
    depth: int
    parent_id: str | None
    kind: TurnKind
    status: TurnStatus
    messages: tuple[Message, ...]
    fingerprint: str = ""
    """Identifies the request (input and configuration) that made the record: a request with the same turn id and
    fingerprint is answered from the record.
    """
    plan: Mapping[str, Any] | None = None
    """JSON value, None before it exists; so are `receipt` and `prompt`."""
    receipt: Mapping[str, Any] | None = None
    prompt: Mapping[str, Any] | None = None
    report: Mapping[str, Any] | None = None
    """Facts about the reply, recorded by the commit (None before it)."""
    anchors: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """State path of each anchor of this prompt at render time."""
    ops: tuple[Mapping[str, Any], ...] = ()
    created_at: datetime | None = None
    origin_id: str | None = None
    """Turn of another branch that this one is a copy of (None: it is not a copy); evidence of that turn is known in
    this one too.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Prefetch:
    """A Stream B result that was too late for its own turn, stored for the next turn of the branch."""

    turn_id: str
    """The turn that it was made for, at `depth` on `branch_id`."""
    branch_id: str
    depth: int
    focus_quest_id: str | None
    """Scene of that turn, with `keywords`."""
    keywords: tuple[str, ...]
    value: Mapping[str, Any]
    """JSON of the selection."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PathSummary:
    """A rolling summary of the path up to and including a committed turn; it applies on every branch with this turn."""

    turn_id: str
    branch_id: str
    depth: int
    summary: Summary


@dataclass(frozen=True, kw_only=True, slots=True)
class HiddenRecords:
    """Records of a session that no window of its branches shows, for copies of the whole session. Ordered by turn
    id.
    """

    abandoned: tuple[TurnRecord, ...] = ()
    """Turns that never got a reply."""
    summaries: tuple[PathSummary, ...] = ()
    """All rolling summaries, including replaced ones; a branch that is opened further back uses an old one."""
    unsummed: tuple[str, ...] = ()
    """Ids of turns after which a path has no summary any more, whatever older turns have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PutResult:
    """The outcome of a write to a session; `version` is the session's version after it."""

    version: int
    success: bool = True
    error: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionWindow:
    """The part of a session that one turn needs, of limited size in a session of any length."""

    head: SessionHead
    messages: tuple[WindowMessage, ...]
    """The newest on the path to the head, oldest first."""
    state: Mapping[str, Any]
    previous: TurnRecord | None = None
    """The last committed turn."""
    pending: TurnRecord | None = None
    """The prepared turn after this head that waits for its reply, if any."""
    prefetch: Prefetch | None = None
    """The newest late result of this branch."""
    summary: PathSummary | None = None
    """The newest rolling summary of a turn on the path."""
    tasks: tuple[Task, ...] = ()
    """The to-do list."""
    usages: tuple[ModelUsage, ...] = ()
    """The newest model calls (at most WINDOW_USAGES), oldest first."""
    meta: Meta | None = None
    """Metadata of the session's document, None if none was ever written."""
    world_digest: str | None = field(default=None, compare=False)
    """Digest of the present version of its world, None if the store does not provide it here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnInputs:
    """Data of a session that a turn reads when it begins, all at one moment."""

    window: SessionWindow
    evidences: tuple[tuple[Evidence, ...], ...] = ()
    """The items that pass each of the requested filters."""
    blocks: tuple[ContextBlock, ...] = ()
    """The context blocks that pass."""
    gated: tuple[MemoryEntry, ...] = ()
    """Entries of the session's and its world's scope that have viewers or conditions, ordered by id."""
    written: Mapping[tuple[str, Chain], int] | None = None
    """Sequence of the newest entry of each recalled chain of both scopes (0: none), by scope and chain; None if the
    store does not provide it.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenInputs:
    """Data of the memories that a turn chose, all read at one moment."""

    entries: Mapping[str, tuple[MemoryEntry, ...]] = field(default_factory=lambda: EMPTY)
    """The requested entries by scope, in the order of the request."""
    evidences: tuple[Evidence, ...] = ()
    """The session's evidence with the requested ids."""
    states: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: EMPTY)
    """State after each of the requested turns, by turn id; without turns that are not committed or whose state cannot
    be read any more.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnCommit:
    """The second half of a turn: the reply, its ops (JSON Patch form) and the state after them."""

    turn_id: str
    messages: tuple[Message, ...]
    ops: tuple[Mapping[str, Any], ...] = ()
    state: Mapping[str, Any] | None = None
    """None if no op was applied."""
    entries: tuple[MemoryEntry, ...] = ()
    """Events and summaries that the turn adds to memory."""
    report: Mapping[str, Any] | None = None
    """JSON value that is stored with the turn, next to the receipt."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SequencedEntry:
    """An entry with its place in the order of writing, for incremental indexing; `deleted` entries are to be removed
    from the index.
    """

    sequence: int
    entry: MemoryEntry
    deleted: bool = False
