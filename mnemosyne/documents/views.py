"""Composes and compares the two views of a session: turn tree and document.

Every store uses these functions to decide which parts of a document are new, which open a branch, and which belong to
its frame. Pure: no storage, no clock. The module imports the schema, the JSON readers and the errors, never a store.

A frame is a document without the lists that are stored separately (messages, tasks, tool calls, model calls, evidences,
blocks, and the summary if it belongs to a turn).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from mnemosyne.core.errors import SchemaValidationError
from mnemosyne.documents.session_json import document_from_json, document_to_json
from mnemosyne.schema.document import (
    Meta,
    ModelUsage,
    Session,
    SessionDocument,
    Summary,
    Task,
    ToolCall,
    ToolState,
)
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.record import SessionStart
from mnemosyne.schema.session import Message, Ref, WindowMessage

T = TypeVar("T")
TURN_ID = "turn_id"
"""The field of a tool call (in `extra`) with the turn in which it was made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageDiff:
    """The changes that a document's messages require in the turn tree.

    `messages` are to be committed as one turn (none: no turn). With `fork` they follow `after` (None = before the first
    turn) on a new branch; without it they follow the head.
    """

    messages: tuple[Message, ...]
    fork: bool = False
    after: str | None = None


def diff_messages(stored: Sequence[WindowMessage], given: Sequence[Message]) -> MessageDiff:
    """Return what must be written so that the path to the head holds `given`; `stored` is the whole path, oldest first.

    Ids are names, not content: a message that differs only in its `message_id` is the same message.
    """
    same = 0
    while same < min(len(stored), len(given)) and _without_id(stored[same].message) == _without_id(given[same]):
        same += 1
    if same == len(stored):
        return MessageDiff(messages=tuple(given[same:]))
    while same and stored[same].turn_id == stored[same - 1].turn_id:
        same -= 1
    return MessageDiff(messages=tuple(given[same:]), fork=True, after=stored[same - 1].turn_id if same else None)


def continues(stored: Sequence[WindowMessage], waiting: Sequence[Message], given: Sequence[Message]) -> bool:
    """Return whether a document has exactly the messages of a path and its waiting turn; ids are names."""
    said = [*(placed.message for placed in stored), *waiting]
    return len(said) == len(given) and all(
        _without_id(one) == _without_id(two) for one, two in zip(said, given, strict=True)
    )


def _without_id(message: Message) -> Message:
    return replace(message, message_id="")


def frame_of(document: SessionDocument) -> SessionDocument:
    """Return a document without its lists and its summary; parts that are None (tool state, model calls) stay None."""
    session = document.session
    state = session.task_state
    return replace(
        document,
        version=None,
        session=replace(
            session,
            messages=(),
            summary=None,
            task_state=replace(state, todo_list=replace(state.todo_list, tasks=())),
            tool_state=None if session.tool_state is None else replace(session.tool_state, tool_calls=()),
            model_usage=None if session.model_usage is None else (),
        ),
        evidences=EMPTY,
        context_blocks=(),
    )


def bare_frame(session_id: str, locale: str, created_at: datetime | None) -> SessionDocument:
    """Return the frame of a session that was never stored as a document."""
    meta = Meta(locale=locale, created_at=created_at) if locale or created_at is not None else None
    return SessionDocument(session=Session(session_id=session_id), meta=meta)


def started_frame(start: SessionStart) -> SessionDocument:
    """Return the frame of a session that starts with metadata of its own. The locale stays that of its world."""
    meta = Meta(created_at=start.at, actor=start.actor, extra=start.extra)
    return SessionDocument(session=Session(session_id=start.session_id), meta=meta)


def with_locale(frame: SessionDocument, locale: str) -> SessionDocument:
    """Return a frame with the locale of its session's world if its metadata names none."""
    if frame.meta is None or frame.meta.locale or not locale:
        return frame
    return replace(frame, meta=replace(frame.meta, locale=locale))


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundParts:
    """Finds of the turns of a session: its evidence, the calls of tools, and the blocks that refer to evidence."""

    evidences: tuple[Evidence, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    blocks: tuple[ContextBlock, ...] = ()

    def turn_ids(self) -> set[str]:
        """Return the turns that these parts name."""
        named = {each.links.turn_id or "" for each in self.evidences} | {turn_of_call(each) for each in self.tool_calls}
        return named - {""}

    def split(self, aside: Collection[str], messages: Iterable[Message]) -> tuple[FoundParts, FoundParts]:
        """Return the parts of a branch with these messages, and the parts that belong only to the turns `aside`.

        The document of the branch is without the latter, and writing that document leaves them unchanged. Evidence that
        a message refers to belongs to the branch.
        """
        cited = {ref.evidence_id for message in messages for ref in message.refs}
        gone = {each.evidence_id for each in self.evidences if each.links.turn_id in aside} - cited

        def select(*, is_aside: bool) -> FoundParts:
            return FoundParts(
                evidences=tuple(e for e in self.evidences if (e.evidence_id in gone) is is_aside),
                tool_calls=tuple(c for c in self.tool_calls if (turn_of_call(c) in aside) is is_aside),
                blocks=tuple(b for b in self.blocks if any(r.evidence_id in gone for r in b.refs) is is_aside),
            )

        return select(is_aside=False), select(is_aside=True)

    def replaced_by(self, document: SessionDocument, aside: Collection[str]) -> FoundParts:
        """Return the parts of a session after a document is written; the parts of the turns `aside` stay."""
        session = document.session
        calls = () if session.tool_state is None else session.tool_state.tool_calls
        others = self.split(aside, session.messages)[1]
        return FoundParts(
            evidences=_with_others(
                document.evidences.values(), self.evidences, others.evidences, lambda each: each.evidence_id
            ),
            tool_calls=_with_others(calls, self.tool_calls, others.tool_calls, lambda each: each.tool_call_id),
            blocks=_with_others(document.context_blocks, self.blocks, others.blocks, lambda each: each.block_id),
        )


def turn_of_call(call: ToolCall) -> str:
    """Return the turn in which a tool was called; empty if the call does not name it."""
    told = call.extra.get(TURN_ID)
    return told if isinstance(told, str) else ""


def _with_others(
    given: Iterable[T], stored: Sequence[T], others: Sequence[T], name: Callable[[T], str]
) -> tuple[T, ...]:
    """Return the given items with those of `others` that are not among them, each before the item that it was stored before."""
    placed = {name(item): item for item in given}
    rest = {name(item): item for item in others if name(item) not in placed}
    if not rest:
        return tuple(placed.values())
    places = {name(item): place for place, item in enumerate(stored)}
    made: list[T] = []
    for key, item in placed.items():
        for other in [each for each in rest if places[each] < places.get(key, len(stored))]:
            made.append(rest.pop(other))
        made.append(item)
    return (*made, *rest.values())


def compose_document(
    frame: SessionDocument,
    *,
    messages: Iterable[Message],
    summary: Summary | None,
    tasks: Iterable[Task] = (),
    model_usage: Iterable[ModelUsage] = (),
    found: FoundParts,
    version: int | None = None,
) -> SessionDocument:
    """Return the document of a frame and its parts, each in order; `frame_of` is the inverse."""
    session = frame.session
    state, calls, usages = session.task_state, found.tool_calls, tuple(model_usage)
    tools = session.tool_state
    if calls:
        tools = replace(tools or ToolState(), tool_calls=calls)
    return replace(
        frame,
        version=version,
        session=replace(
            session,
            messages=tuple(messages),
            summary=summary,
            task_state=replace(state, todo_list=replace(state.todo_list, tasks=tuple(tasks))),
            tool_state=tools,
            model_usage=usages if usages or session.model_usage is not None else None,
        ),
        evidences={evidence.evidence_id: evidence for evidence in found.evidences},
        context_blocks=found.blocks,
    )


def check_document(session_id: str, document: SessionDocument) -> None:
    """Raise SchemaValidationError unless a document belongs to this session, every id in it is unique and every ref leads to
    evidence.
    """
    session = document.session
    faults = []
    if session.session_id != session_id:
        faults.append(f"session.session_id: is {session.session_id!r}, but the session to write is {session_id!r}")
    for key, evidence in document.evidences.items():
        if key != evidence.evidence_id:
            faults.append(
                f"evidences.{key}: has evidence_id {evidence.evidence_id!r}; the key and the id must be equal"
            )
    calls = session.tool_state.tool_calls if session.tool_state is not None else ()
    faults += _find_duplicates("context_blocks", [block.block_id for block in document.context_blocks])
    faults += _find_duplicates(
        "session.task_state.todo_list.tasks", [task.task_id for task in session.task_state.todo_list.tasks]
    )
    faults += _find_duplicates("session.tool_state.tool_calls", [call.tool_call_id for call in calls])
    faults += _find_duplicates("session.model_usage", [usage.model_usage_id for usage in session.model_usage or ()])
    if faults:
        raise SchemaValidationError(tuple(faults))
    held = [(f"session.messages[{place}]", message.refs) for place, message in enumerate(session.messages)]
    held += [(f"context_blocks[{place}]", block.refs) for place, block in enumerate(document.context_blocks)]
    check_refs(held, document.evidences.__contains__)


def check_refs(items: Iterable[tuple[str, Sequence[Ref]]], knows: Callable[[str], bool]) -> None:
    """Raise SchemaValidationError for refs to evidence that the session does not have, unless they are marked as
    remote.

    `items` are refs with the places of their owners; `knows` returns whether the session has evidence with an id.
    """
    faults = [
        f"{path}.refs: no evidence has the id {ref.evidence_id!r}; store it first, or mark the ref with remote: true"
        for path, refs in items
        for ref in refs
        if not ref.remote and not knows(ref.evidence_id)
    ]
    if faults:
        raise SchemaValidationError(tuple(faults))


def refs_of_messages(messages: Sequence[Message], where: str = "") -> list[tuple[str, Sequence[Ref]]]:
    """Return the refs of messages with their places, for `check_refs`."""
    return [(f"{where}message {place}", message.refs) for place, message in enumerate(messages) if message.refs]


def _find_duplicates(path: str, ids: Sequence[str]) -> list[str]:
    seen: set[str] = set()
    faults = []
    for place, name in enumerate(ids):
        if name in seen:
            faults.append(f"{path}[{place}]: the id {name!r} occurs twice")
        seen.add(name)
    return faults


def merge_patch(target: Any, patch: Any) -> Any:
    """Return `target` after a JSON merge patch (RFC 7386): null removes, objects merge, all else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def patch_document(document: SessionDocument, patch: Mapping[str, Any]) -> SessionDocument:
    """Return a document after a merge patch on its JSON form; SchemaValidationError when the result is not a document."""
    return document_from_json(merge_patch(document_to_json(document), patch))


def keyed_turn_id(idempotency_key: str) -> str:
    """Return the turn id of messages that were appended under a key."""
    digest = hashlib.sha256(idempotency_key.encode("utf-8", "surrogatepass")).hexdigest()
    return f"k-{digest[:32]}"


def free_name(prefix: str, number: int, is_taken: Callable[[str], bool]) -> str:
    """Return `<prefix><number>`, or with the next number that is not taken."""
    while is_taken(f"{prefix}{number}"):
        number += 1
    return f"{prefix}{number}"


TURN_PREFIX = "v"
"""Turns made from a document, or from messages appended without a key, are named by the session version they create: `v7`."""

BRANCH_PREFIX = "told-"
"""Prefix of branches that a document opens. (It is part of stored sessions.)"""
