"""Converts between the two forms of a session: the turn tree (turns on branches) and the document (one list of messages).

Every store uses these functions to decide which parts of a document are new, which open a branch, and which belong to its
frame. A frame is a document without the lists that a store keeps separately: messages, tasks, tool calls, model calls,
evidence and blocks. A frame has no summary, either. This module reads no clock and must not import a store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from mnemosyne.core.errors import SchemaValidationError
from mnemosyne.documents.session_json import document_faults, document_from_json, document_to_json
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
from mnemosyne.values import dataclass

T = TypeVar("T")
TURN_ID = "turn_id"
"""Field of a tool call (in `extra`) with the id of the turn that made the call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageDiff:
    """The change of the turn tree that the messages of a document require.

    `messages` become one turn; if `messages` is empty, no turn is added. If `fork`, the turn is on a new branch and follows the
    turn `after` (None: it is the first turn). Otherwise the turn follows the last turn of the current branch.
    """

    messages: tuple[Message, ...]
    fork: bool = False
    after: str | None = None


def diff_messages(stored: Sequence[WindowMessage], given: Sequence[Message]) -> MessageDiff:
    """Return the change of the turn tree that a document with the messages `given` requires. `stored` has the messages on
    the present path, oldest first.

    Ids are ignored: a message that differs only in its `message_id` is the same message.
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
    """Return whether the messages `given` of a document are exactly the messages of the path `stored` followed by
    `waiting`.

    `waiting` are the messages of the turn that waits for a reply. Ids of messages are ignored.
    """
    said = [*(placed.message for placed in stored), *waiting]
    return len(said) == len(given) and all(
        _without_id(one) == _without_id(two) for one, two in zip(said, given, strict=True)
    )


def _without_id(message: Message) -> Message:
    return replace(message, message_id="")


def frame_of(document: SessionDocument) -> SessionDocument:
    """Return the frame of a document: the document without its lists and its summary.

    If the tool state or the list of model calls is None, it stays None.
    """
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
    """Return the frame of a session that was never written as a document."""
    meta = Meta(locale=locale, created_at=created_at) if locale or created_at is not None else None
    return SessionDocument(session=Session(session_id=session_id), meta=meta)


def started_frame(start: SessionStart) -> SessionDocument:
    """Return the frame of a session that starts with its own metadata. The locale is left empty, because it comes from
    the world.
    """
    meta = Meta(created_at=start.at, actor=start.actor, extra=start.extra)
    return SessionDocument(session=Session(session_id=start.session_id), meta=meta)


def with_locale(frame: SessionDocument, locale: str) -> SessionDocument:
    """Return a frame with `locale` (the locale of the session's world) if its metadata has no locale."""
    if frame.meta is None or frame.meta.locale or not locale:
        return frame
    return replace(frame, meta=replace(frame.meta, locale=locale))


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundParts:
    """Parts of a session that its turns produced: evidence, tool calls, and the blocks that refer to evidence."""

    evidences: tuple[Evidence, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    blocks: tuple[ContextBlock, ...] = ()

    def turn_ids(self) -> set[str]:
        """The ids of the turns that these parts name."""
        named = {each.links.turn_id or "" for each in self.evidences} | {turn_of_call(each) for each in self.tool_calls}
        return named - {""}

    def split(self, aside: Collection[str], messages: Iterable[Message]) -> tuple[FoundParts, FoundParts]:
        """Return (parts of the branch, other parts). `messages` are the messages of the branch, and `aside` has the ids of
        turns on other branches.

        A part is among the other parts if it belongs only to turns in `aside`, and no message of the branch refers to it. The
        document of the branch contains only the parts of the branch. Writing that document does not change the other parts.
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
        """Return the parts of a session after a document was written. Parts that belong only to the turns `aside` are kept."""
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
    """Return the id of the turn that made a tool call. It is empty if the call does not name its turn."""
    told = call.extra.get(TURN_ID)
    return told if isinstance(told, str) else ""


def _with_others(
    given: Iterable[T], stored: Sequence[T], others: Sequence[T], name: Callable[[T], str]
) -> tuple[T, ...]:
    """Return the items `given` together with the items of `others` that are not in `given`.

    Each of the others comes before the item that it preceded in `stored`.
    """
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
    """Return the document that consists of `frame` and the given parts, which are in order. `found` are the parts that turns
    produced. `version` is the version of the session (None: unknown). `frame_of` returns the frame of a document.
    """
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


def check_document(session_id: str, document: SessionDocument) -> SessionDocument:
    """Check a document and return it, with times that are texts as datetimes.

    It must belong to the session `session_id`; ids are unique, every value is one that its field may have, and every ref leads
    to evidence.

    Raises SchemaValidationError with all faults, if there are any.
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
    # A document that a program made may have any text as a role or a kind, and any value as a content.
    data = document_to_json(document)
    faults += [str(each) for each in document_faults(data) if each.code in ("value", "kind")]
    if faults:
        raise SchemaValidationError(tuple(faults))
    held = [(f"session.messages[{place}]", message.refs) for place, message in enumerate(session.messages)]
    held += [(f"context_blocks[{place}]", block.refs) for place, block in enumerate(document.context_blocks)]
    check_refs(held, document.evidences.__contains__)
    return document_from_json(data) if any(isinstance(each, str) for each in _list_times(document)) else document


def _list_times(document: SessionDocument) -> Iterator[datetime | str | None]:
    session = document.session
    yield from (each.at for each in session.messages)
    yield from (each.called_at for each in (session.tool_state.tool_calls if session.tool_state is not None else ()))
    for item in document.evidences.values():
        yield from (item.created_at, item.expires_at)
    if session.summary is not None:
        yield session.summary.updated_at
    if document.meta is not None:
        yield from (document.meta.created_at, document.meta.updated_at)


def check_refs(items: Iterable[tuple[str, Sequence[Ref]]], knows: Callable[[str], bool]) -> None:
    """Check that refs lead to evidence of the session, except refs that are marked as remote.

    `items` are (place of the owner, its refs). `knows` returns whether the session has the evidence with an id. Raises
    SchemaValidationError with all refs that lead nowhere.
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
    """Return (place, refs) for each message with refs, for `check_refs`. `where` is put before each place."""
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
    """Return `target` after a JSON merge patch (RFC 7386): null removes a key, objects are merged, and any other value
    replaces.
    """
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
    """Return a document after a JSON merge patch on its JSON form. Raises SchemaValidationError if the result is not a
    document.
    """
    return document_from_json(merge_patch(document_to_json(document), patch))


def keyed_turn_id(idempotency_key: str) -> str:
    """Return the id of the turn that is made of messages appended under an idempotency key."""
    digest = hashlib.sha256(idempotency_key.encode("utf-8", "surrogatepass")).hexdigest()
    return f"k-{digest[:32]}"


def free_name(prefix: str, number: int, is_taken: Callable[[str], bool]) -> str:
    """Return `prefix` followed by `number`, or by the next number whose name is not taken."""
    while is_taken(f"{prefix}{number}"):
        number += 1
    return f"{prefix}{number}"


TURN_PREFIX = "v"
"""Prefix of the ids of turns made from a document, or from messages appended without a key. The version of the session
that the turn creates follows: `v7`.
"""

BRANCH_PREFIX = "told-"
"""Prefix of branches that writing a document opens. It is part of stored sessions."""
