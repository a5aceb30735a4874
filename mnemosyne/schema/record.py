"""The records of turns that a store keeps, and the windows that it returns.

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
    """A session to create, with everything that comes from its world.

    `turns` are committed in order as depths 1..n of branch `main`; `entries` may name them by `turn_id` and depth. `extra` is what
    the metadata of its document says beside locale and time, as the id of its `profile`. `evidences` and `blocks` are what it has
    of them from its start, `actor` is whose session it is.
    """

    session_id: str
    world_id: str
    locale: str
    state: Mapping[str, Any]
    turns: tuple[ImportedTurn, ...] = ()
    entries: tuple[MemoryEntry, ...] = ()
    at: datetime | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    evidences: tuple[Evidence, ...] = ()
    blocks: tuple[ContextBlock, ...] = ()
    actor: Actor | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedTurn:
    """A finished turn from a pack, a corpus or a chat. `alternatives` are other replies to the same message of the user."""

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
    """What a caller wants of a file of conversations; an importer may pass over what its format has no use for.

    `session_id` is the session to make (None: named as the file does), `only` the one session of the file to read (None: all).
    `users` and `assistants` are names of speakers.
    """

    session_id: str | None = None
    only: str | None = None
    users: tuple[str, ...] = ()
    assistants: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedConversation:
    """One session that was read; `notes` are sentences on what was left out or guessed."""

    start: SessionStart
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedConversations:
    """The sessions of a file, in its order; `notes` are sentences on the whole file."""

    conversations: tuple[ImportedConversation, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnRecord:
    """One turn as stored.

    `fingerprint` identifies the request (input and configuration) that made the record: a request with the same turn id
    and fingerprint is answered from the record. `plan`, `receipt`, `prompt`: JSON values (None before they exist).
    `anchors` maps each anchor of this prompt to its state path at render time. `report` is what the commit recorded
    about the reply (None before it). `origin_id`: the turn that this one is a copy of on another branch (None: of none); what was
    found in that turn is known in this one.
    """

    turn_id: str
    session_id: str
    branch_id: str
    depth: int
    parent_id: str | None
    kind: TurnKind
    status: TurnStatus
    messages: tuple[Message, ...]
    fingerprint: str = ""
    plan: Mapping[str, Any] | None = None
    receipt: Mapping[str, Any] | None = None
    prompt: Mapping[str, Any] | None = None
    report: Mapping[str, Any] | None = None
    anchors: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    ops: tuple[Mapping[str, Any], ...] = ()
    created_at: datetime | None = None
    origin_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Prefetch:
    """A Stream B result that was too late for its own turn, stored for the next turn of the branch.

    `value` is the JSON of the selection; `turn_id` is the turn that it was made for, `depth` its depth on `branch_id`;
    `focus_quest_id` and `keywords` describe its scene.
    """

    turn_id: str
    branch_id: str
    depth: int
    focus_quest_id: str | None
    keywords: tuple[str, ...]
    value: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class PathSummary:
    """A rolling summary of the path up to and including a committed turn; it applies on every branch with this turn."""

    turn_id: str
    branch_id: str
    depth: int
    summary: Summary


@dataclass(frozen=True, kw_only=True, slots=True)
class HiddenRecords:
    """The records of a session that no window of its branches shows, for copies of the whole session.

    `abandoned`: turns that never got a reply. `summaries`: all rolling summaries, including replaced ones; a branch
    that is opened further back shows the one from there. `unsummed`: ids of turns after which a path has no summary any
    more, whatever older turns have. Each is ordered by turn id.
    """

    abandoned: tuple[TurnRecord, ...] = ()
    summaries: tuple[PathSummary, ...] = ()
    unsummed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PutResult:
    """The outcome of a write to a session; `version` is the session's version after it."""

    version: int
    success: bool = True
    error: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionWindow:
    """The part of a session that one turn needs, whatever its length.

    `messages`: the newest on the path to the head, oldest first. `previous`: the last committed turn. `pending`: the
    prepared turn after this head that waits for its reply, if any. `prefetch`: the newest late result of this branch.
    `summary`: the newest rolling summary of a turn on the path. `tasks`: the to-do list. `usages`: the newest model
    calls (at most WINDOW_USAGES), oldest first. `meta`: that of the session's document, None where none was ever written.
    `world_digest`: that of the present version of its world, None where the store does not say it here.
    """

    head: SessionHead
    messages: tuple[WindowMessage, ...]
    state: Mapping[str, Any]
    previous: TurnRecord | None = None
    pending: TurnRecord | None = None
    prefetch: Prefetch | None = None
    summary: PathSummary | None = None
    tasks: tuple[Task, ...] = ()
    usages: tuple[ModelUsage, ...] = ()
    meta: Meta | None = None
    world_digest: str | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnInputs:
    """What a turn reads of its session when it begins, all of one moment.

    `evidences`: the items that pass each of the filters asked for; `blocks`: the context blocks that pass. `gated`: the entries
    of the scopes of the session and of its world that have viewers or conditions, ordered by id. `written`: the sequence of the
    newest entry of each chain of both scopes that recall reads (0: none), by scope and chain; None where the store does not say.
    """

    window: SessionWindow
    evidences: tuple[tuple[Evidence, ...], ...] = ()
    blocks: tuple[ContextBlock, ...] = ()
    gated: tuple[MemoryEntry, ...] = ()
    written: Mapping[tuple[str, Chain], int] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenInputs:
    """What a turn reads of the memories that it chose, all of one moment.

    `entries`: those asked for, by scope, in the order in which they were asked for. `evidences`: those of the session with the
    ids asked for. `states`: the state after each of the turns asked for, by turn id; a turn that is not committed, or whose
    state cannot be read any more, has none.
    """

    entries: Mapping[str, tuple[MemoryEntry, ...]] = field(default_factory=lambda: EMPTY)
    evidences: tuple[Evidence, ...] = ()
    states: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnCommit:
    """The second half of a turn: the reply, its ops (JSON Patch form) and the state after them.

    `state` is None if no op was applied. `entries` are what the turn adds to memory (events, summaries). `report` is a
    JSON value that is stored with the turn, beside the receipt.
    """

    turn_id: str
    messages: tuple[Message, ...]
    ops: tuple[Mapping[str, Any], ...] = ()
    state: Mapping[str, Any] | None = None
    entries: tuple[MemoryEntry, ...] = ()
    report: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SequencedEntry:
    """An entry with its place in the order of writing, for incremental indexing; `deleted` entries are to be removed
    from the index.
    """

    sequence: int
    entry: MemoryEntry
    deleted: bool = False
