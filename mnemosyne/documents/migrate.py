"""Migrates session documents of older versions to the current one.

A chain of pure steps: each takes the JSON of one version and returns that of the next, with a log line for every
rename, default and removal. Steps work on a copy; the document is checked before the first step and after the last, so
a broken one is refused as a whole. Version 0.9 is the draft before 1.0; its
documents have no version field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mnemosyne.core.errors import MigrationError
from mnemosyne.core.plain_values import plain_faults
from mnemosyne.documents.faults import Fault, Severity, child
from mnemosyne.documents.read import copy_tree, json_kind_name
from mnemosyne.documents.session_json import read_document
from mnemosyne.schema.document import SCHEMA_VERSION, SessionDocument

DRAFT = "0.9"
_RETIRED = ("policy", "execution", "runtime", "prompt_layers", "snapshots", "dialog_state")
"""Parts of the draft that assembled prompts. Nothing reads them any more; they are kept where they are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MigrateResult:
    """A migrated document; `changes` are in the order in which they were made (none for a document of the current
    version).
    """

    doc: SessionDocument
    from_version: str
    to_version: str
    changes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """The migration from one version to the next. `apply` changes the copy that it is given and returns its log."""

    from_version: str
    to_version: str
    apply: Callable[[dict[str, Any]], list[str]]


def current_version() -> str:
    """Return the version to which documents are migrated."""
    return SCHEMA_VERSION


def can_migrate(from_version: str) -> bool:
    """Return whether documents of a version can be migrated to the current one."""
    return from_version == SCHEMA_VERSION or any(step.from_version == from_version for step in STEPS)


def version_of(data: Mapping[str, Any]) -> str:
    """Return the version of a document's JSON; the draft's for a document without one."""
    version = data.get("schema_version", DRAFT)
    return version if isinstance(version, str) else repr(version)


def migrate(data: Mapping[str, Any], from_version: str | None = None) -> MigrateResult:
    """Return the document in the current version, with the log of changes; `data` is not changed.

    `from_version` overrides the version in the document. MigrationError for a version that is newer or unknown, and,
    with every fault, for a document that is broken before or after the migration.
    """
    if not isinstance(data, Mapping):
        raise MigrationError("unknown", SCHEMA_VERSION, f"it is {json_kind_name(data)}, not an object")
    found = from_version if from_version is not None else version_of(data)
    if not can_migrate(found):
        raise MigrationError(found, SCHEMA_VERSION, _describe_refusal(found))
    _refuse_document(found, _faults_before(data))
    made = copy_tree(data)
    if from_version is not None and from_version == SCHEMA_VERSION:
        made["schema_version"] = SCHEMA_VERSION
    changes: list[str] = []
    version = found
    for step in STEPS:
        if step.from_version == version:
            changes += step.apply(made)
            made["schema_version"] = version = step.to_version
            changes.append(f"set schema_version to {step.to_version}")
    doc, faults = read_document(made)
    _refuse_document(found, [fault for fault in faults if fault.severity is Severity.ERROR])
    assert doc is not None
    return MigrateResult(doc=doc, from_version=found, to_version=SCHEMA_VERSION, changes=tuple(changes))


def _describe_refusal(version: str) -> str:
    known = ", ".join([*(step.from_version for step in STEPS), SCHEMA_VERSION])
    try:
        newer = _iterate_parts(version) > _iterate_parts(SCHEMA_VERSION)
    except ValueError:
        return f"this is not a version; documents of {known} can be read"
    if newer:
        return "it was written by a newer release; use that one, or export the session again from it"
    return f"there is no migration from it; documents of {known} can be read"


def _iterate_parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _refuse_document(version: str, faults: list[Fault]) -> None:
    if faults:
        raise MigrationError(version, SCHEMA_VERSION, "it is broken", tuple(str(fault) for fault in faults))


def _faults_before(data: Mapping[str, Any]) -> list[Fault]:
    """Return the faults that prevent a migration: parts of the wrong kind."""
    faults = []
    for path, what in plain_faults(dict(data), any_text=True):
        where = ""
        for name in path:
            where = child(where, name)
        faults.append(Fault(path=where, what=what, code="plain"))
    if faults:
        return faults
    wanted: tuple[tuple[str, type, str], ...] = (
        ("meta", dict, "an object"),
        ("session", dict, "an object"),
        ("evidences", dict, "an object"),
        ("context_blocks", list, "a list"),
    )
    for name, kind, words in wanted:
        part = data.get(name)
        if part is not None and not isinstance(part, kind):
            faults.append(Fault(path=name, what=f"is {json_kind_name(part)}, not {words}", code="kind"))
    return faults


def _from_draft(data: dict[str, Any]) -> list[str]:
    log: list[str] = []
    session = data.get("session")
    if session is None:
        session = data["session"] = {}
    _name_session(data.get("meta") or {}, session, log)
    _fill_required(data, session, log)
    _name_evidences(data["evidences"], log)
    for at, block in enumerate(data["context_blocks"]):
        if isinstance(block, dict):
            _gather_refs(block, child("context_blocks", at), data["evidences"], log)
    for place, holder in (("", data), ("meta", data.get("meta") or {}), ("session", session)):
        kept = [child(place, name) for name in _RETIRED if name in holder]
        log += [f"kept {path} unread: {SCHEMA_VERSION} has no such field" for path in kept]
    return log


def _name_session(meta: dict[str, Any], session: dict[str, Any], log: list[str]) -> None:
    """Move the session id to its one name and place."""
    for holder, name, path in ((session, "id", "session.id"), (meta, "conversation_id", "meta.conversation_id")):
        if name not in holder:
            continue
        if "session_id" not in session:
            session["session_id"] = holder.pop(name)
            log.append(f"renamed {path} to session.session_id")
        elif holder[name] == session["session_id"]:
            del holder[name]
            log.append(f"removed {path}: session.session_id says the same")
        else:
            log.append(f"kept {path} unread: it differs from session.session_id")


def _fill_required(data: dict[str, Any], session: dict[str, Any], log: list[str]) -> None:
    """Add the fields that version 1.0 requires and allows to be empty."""
    wanted: tuple[tuple[dict[str, Any], str, Any, str], ...] = (
        (data, "evidences", {}, "evidences"),
        (data, "context_blocks", [], "context_blocks"),
        (session, "task_state", {}, "session.task_state"),
    )
    for holder, name, empty, path in wanted:
        if holder.get(name) is None:
            holder[name] = empty
            log.append(f"added default for {path}")
    tasks = session["task_state"]
    if isinstance(tasks, dict) and tasks.get("todo_list") is None:
        tasks["todo_list"] = {}
        log.append("added default for session.task_state.todo_list")
    if isinstance(tasks, dict) and isinstance(tasks["todo_list"], dict) and tasks["todo_list"].get("tasks") is None:
        tasks["todo_list"]["tasks"] = []
        log.append("added default for session.task_state.todo_list.tasks")


def _name_evidences(evidences: dict[str, Any], log: list[str]) -> None:
    for key, each in evidences.items():
        if isinstance(each, dict) and "evidence_id" not in each:
            each["evidence_id"] = key
            log.append(f"added {child(child('evidences', key), 'evidence_id')} from its key")


def _gather_refs(block: dict[str, Any], path: str, evidences: Mapping[str, Any], log: list[str]) -> None:
    """Turn `content_ref` (the part to show) and `evidence_ids` (the sources) into `refs`; what cannot be read stays."""
    refs = [] if block.get("refs") is None else block["refs"]
    if not isinstance(refs, list):
        return
    refs = list(refs)
    named = {ref.get("evidence_id") for ref in refs if isinstance(ref, dict)}
    moved = []
    ref = _ref_of(block.get("content_ref"), evidences)
    if ref is not None:
        del block["content_ref"]
        refs.append(ref)
        named.add(ref["evidence_id"])
        moved.append("content_ref")
    elif "content_ref" in block:
        log.append(f"kept {path}.content_ref unread: it names no evidence of the document")
    ids = block.get("evidence_ids")
    if isinstance(ids, list) and all(isinstance(each, str) for each in ids):
        del block["evidence_ids"]
        refs += [{"evidence_id": each} for each in dict.fromkeys(ids) if each not in named]
        moved.append("evidence_ids")
    if moved:
        block["refs"] = refs
        log.append(f"renamed {' and '.join(f'{path}.{name}' for name in moved)} to {path}.refs")


def _ref_of(raw_ref: Any, evidences: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a ref for `id`, `id#selector` or `{evidence_id, selector}`, or None for anything else."""
    if isinstance(raw_ref, dict) and isinstance(raw_ref.get("evidence_id"), str):
        return raw_ref
    if not isinstance(raw_ref, str):
        return None
    if raw_ref in evidences:
        return {"evidence_id": raw_ref}
    name, _, selector = raw_ref.partition("#")
    return {"evidence_id": name, "selector": selector} if selector and name in evidences else None


STEPS: tuple[Step, ...] = (Step(from_version=DRAFT, to_version="1.0", apply=_from_draft),)
"""The steps to the current version, oldest first."""
