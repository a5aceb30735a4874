"""Exceptions that mnemosyne raises. Their messages are full sentences, most of them with advice.

MnemosyneError (a ContextEngineError, as JacquardError is)
├── StoreError
│   ├── SessionNotFoundError
│   ├── SessionExistsError
│   ├── WorldNotAdoptedError
│   ├── BranchNotFoundError
│   ├── BranchExistsError
│   ├── TurnNotFoundError
│   │   └── NoPendingTurnError
│   ├── TurnNotPendingError
│   ├── VersionConflictError
│   ├── EntryConflictError
│   ├── StoreBusyError
│   ├── LeaseLostError
│   ├── StoreUnavailableError
│   ├── DamagedRecordError
│   └── CommitUnknownError
├── StateOpError
├── SchemaValidationError
├── MigrationError
├── SelectorResolveError
├── EvidenceNotFoundError
├── UriError
├── RedactionError
├── PatternError
├── CodecError
│   └── UnreadableError
├── WorldPackError
├── CorpusError
├── DocumentFileError
├── IndexUnavailableError
├── SnapshotError
│   ├── SnapshotDamagedError
│   └── SnapshotStorageError
├── ScopeDroppedError
├── EmbedderUnavailableError
└── PluginError
"""

from __future__ import annotations

from mnemosyne.core.masking.credentials import mask_credentials


class ContextEngineError(Exception):
    """Root of all errors of mnemosyne and jacquard, for hosts that catch everything.

    Credentials in its message are masked.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(mask_credentials(each) if isinstance(each, str) else each for each in args))


class MnemosyneError(ContextEngineError):
    """Root of all errors that mnemosyne raises on purpose."""


class StoreError(MnemosyneError):
    """The store could not complete a call, and nothing was changed. Only after a CommitUnknownError it is unknown whether
    the write was stored.
    """


class SessionNotFoundError(StoreError):
    """No session has this id."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(
            f"There is no session {session_id!r}. Start one from a world pack, name a profile (as `assistant`) to "
            "start one without a pack, or import a corpus into it."
        )


class SessionExistsError(StoreError):
    """A session with this id exists already."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"Session {session_id!r} exists already. Choose another id, or continue the existing session.")


class WorldNotAdoptedError(StoreError):
    """A session cannot continue in the named world (the setting from a world pack). Nothing was written."""

    def __init__(self, session_id: str, world_id: str, reason: str) -> None:
        self.session_id, self.world_id, self.reason = session_id, world_id, reason
        super().__init__(
            f"Session {session_id!r} cannot continue in world {world_id!r}: {reason}. Leave the world out, or start another "
            "session in it."
        )


class BranchNotFoundError(StoreError):
    """The session has no such branch."""

    def __init__(self, session_id: str, branch_id: str) -> None:
        self.session_id, self.branch_id = session_id, branch_id
        super().__init__(
            f"Session {session_id!r} has no branch {branch_id!r}. `jacquard play history` lists its branches."
        )


class BranchExistsError(StoreError):
    """The session has a branch of this name already."""

    def __init__(self, session_id: str, branch_id: str) -> None:
        self.session_id, self.branch_id = session_id, branch_id
        super().__init__(f"Session {session_id!r} already has a branch {branch_id!r}. Choose another name.")


class TurnNotFoundError(StoreError):
    """The session has no such turn."""

    def __init__(self, session_id: str, turn_id: str) -> None:
        self.session_id, self.turn_id = session_id, turn_id
        super().__init__(f"Session {session_id!r} has no turn {turn_id!r}. `jacquard play history` lists its turns.")


class NoPendingTurnError(TurnNotFoundError):
    """There is no pending turn that a reply could answer."""

    def __init__(self, session_id: str) -> None:
        self.session_id, self.turn_id = session_id, "(pending)"
        StoreError.__init__(
            self, f"No turn of session {session_id!r} waits for a reply. Prepare one first: `jacquard play weave`."
        )


class TurnNotPendingError(StoreError):
    """A reply cannot be committed to this turn, because a later input came before the reply."""

    def __init__(self, session_id: str, turn_id: str) -> None:
        self.session_id, self.turn_id = session_id, turn_id
        super().__init__(
            f"Turn {turn_id!r} of session {session_id!r} waits no more: an input came before its reply. Prepare it again."
        )


class VersionConflictError(StoreError):
    """Another writer changed the session first. The caller reads the session again and decides again."""

    def __init__(self, session_id: str, expected: int, found: int) -> None:
        self.session_id, self.expected, self.found = session_id, expected, found
        super().__init__(
            f"Session {session_id!r} is at version {found}, not {expected}: another writer came first. Read it again."
        )


class EntryConflictError(StoreError):
    """An entry id is in use by another turn. The entries of one turn never overwrite those of another turn."""

    def __init__(self, scope: str, entry_id: str, turn_id: str | None) -> None:
        self.scope, self.entry_id, self.turn_id = scope, entry_id, turn_id
        super().__init__(
            f"Entry {entry_id!r} of {scope} already belongs to turn {turn_id!r}. Make entry ids from the turn id."
        )


class StoreBusyError(StoreError):
    """Another process kept the database locked for too long. If `session_id` is not None, only this session was locked."""

    def __init__(self, path: str, waited_seconds: float, *, session_id: str | None = None) -> None:
        self.path, self.waited_seconds, self.session_id = path, waited_seconds, session_id
        what = path if session_id is None else f"Session {session_id!r} in {path}"
        super().__init__(
            f"{what} stayed locked by another process for {waited_seconds:g} s. Nothing was written; try again when it ends."
        )


class LeaseLostError(StoreError):
    """Another process may have taken over a job, because this process did not renew its lease in time.

    A lease is the right of one process to do one job for a whole database. Nothing was written.
    """

    def __init__(self, name: str, holder: str) -> None:
        self.name, self.holder = name, holder
        super().__init__(
            f"The lease {name!r} of {holder} is over and another may have it. Nothing was written; the holder goes on."
        )


class StoreUnavailableError(StoreError):
    """The store cannot be opened or written (disk full, no permission, not a database)."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path} cannot be used: {reason}. Nothing was written.")


class DamagedRecordError(StoreError):
    """A stored record cannot be read any more: a disk fault or another program has changed it.

    `path` is the store ('' if it is not known); `what` names the damaged part.
    """

    def __init__(self, path: str, what: str, reason: str) -> None:
        self.path, self.what, self.reason = path, what, reason
        place = f" in {path}" if path else ""
        super().__init__(
            f"{what}{place} is damaged: {reason.strip().rstrip('.')}. Nothing was changed; restore the store from a backup."
        )


class CommitUnknownError(StoreError):
    """The connection was lost during a commit. Either the whole write was stored or nothing of it; the caller cannot know."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        super().__init__(
            f"{shown}: the connection was lost while a write was being committed, so all of it was written, or nothing. "
            "Read the session again; a turn that is written twice under one id is written once."
        )


class StateOpError(MnemosyneError):
    """An op (one change of the state) was refused, so no op of the turn was applied.

    `index` is the place of the op in the list (0-based). `code` is one of `filament.Refusal`.
    """

    def __init__(self, index: int, op: str, reason: str, code: str = "malformed") -> None:
        self.index, self.op, self.reason, self.code = index, op, reason, code
        super().__init__(f"op {index} ({op}) was refused: {reason}. No op of the turn was applied.")


class SchemaValidationError(MnemosyneError):
    """A document breaks its schema or one of its invariants. `faults` lists every fault as `path: fault`."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        self.faults = faults
        super().__init__("\n".join(faults))


class MigrationError(MnemosyneError):
    """A document cannot be migrated to the current version. The document was not changed; `faults` lists its faults."""

    def __init__(self, from_version: str, to_version: str, reason: str, faults: tuple[str, ...] = ()) -> None:
        self.from_version, self.to_version, self.faults = from_version, to_version, faults
        said = f"This document of version {from_version} cannot be migrated to version {to_version}: {reason}."
        super().__init__("\n".join([said, *faults]))


class SelectorResolveError(MnemosyneError):
    """A selector is malformed, or selects nothing in its content. `selector` is the part that failed."""

    def __init__(self, selector: str, reason: str) -> None:
        self.selector, self.reason = selector, reason
        super().__init__(f"Selector {selector!r} cannot be resolved: {reason}.")


class EvidenceNotFoundError(MnemosyneError):
    """A reference names an evidence (a stored source text) that the session does not have."""

    def __init__(self, session_id: str, evidence_id: str) -> None:
        self.session_id, self.evidence_id = session_id, evidence_id
        super().__init__(f"Session {session_id!r} holds no evidence {evidence_id!r}.")


class UriError(MnemosyneError):
    """An address is not a mnemosyne address, or nothing exists there."""

    def __init__(self, uri: str, reason: str) -> None:
        self.uri, self.reason = uri, reason
        super().__init__(f"{uri!r} leads nowhere: {reason}.")


class RedactionError(MnemosyneError):
    """A text could not be searched for data that must not be stored. The caller must withhold the text."""


class PatternError(MnemosyneError):
    """A regular expression or a JSONPath cannot be used, or exceeded its time limit. `reason` states why and what to do."""

    def __init__(self, pattern: str, reason: str) -> None:
        self.pattern, self.reason = pattern, reason
        shown = pattern if len(pattern) <= 80 else f"{pattern[:79]}…"
        super().__init__(f"The pattern {shown!r} cannot be used: {reason}.")


class CodecError(MnemosyneError, ValueError):
    """A value cannot be encoded without loss, or bytes cannot be decoded. The message names the place."""


class UnreadableError(CodecError):
    """Bytes cannot be decoded as the expected type. `data` contains the bytes."""

    def __init__(self, sentence: str, data: bytes = b"") -> None:
        self.data = data
        super().__init__(sentence)


class WorldPackError(MnemosyneError):
    """A world pack has faults. `faults` lists all of them as `file:line: key: what to do`."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        self.faults = faults
        super().__init__("\n".join(faults))


class CorpusError(MnemosyneError):
    """A corpus file has a fault. The message names the file and the line."""


class DocumentFileError(MnemosyneError):
    """A file cannot be read as a document. The message names the file and states why."""

    def __init__(self, file: str, reason: str) -> None:
        self.file, self.reason = file, reason
        super().__init__(f"{file} cannot be read as a document: {reason}.")

    def __reduce__(self) -> tuple[type[DocumentFileError], tuple[str, str]]:
        return DocumentFileError, (self.file, self.reason)


class IndexUnavailableError(MnemosyneError):
    """The files of one scope (one session or one world) in the index folder cannot be read or written."""

    def __init__(self, folder: str, scope: str, reason: str) -> None:
        self.folder, self.scope, self.reason = folder, scope, reason
        super().__init__(
            f"The index of {scope!r} in {folder} cannot be used: {reason}. Nothing of the session is lost: it is in "
            "the store. Remove the index folder to have it rebuilt."
        )


class SnapshotError(MnemosyneError):
    """A snapshot of an index cannot be published or used."""


class SnapshotDamagedError(SnapshotError):
    """A snapshot of an index is not used, because it differs from the one that was published.

    The upload was incomplete, a file was changed, or the snapshot has another format.
    """

    def __init__(self, place: str, reason: str) -> None:
        self.place, self.reason = place, reason
        super().__init__(
            f"The snapshot {place} cannot be used: {reason}. Nothing is lost: the index is made from the store. Publish it "
            "again: `jacquard operate snapshot publish`."
        )


class SnapshotStorageError(SnapshotError):
    """The storage of snapshots cannot be reached, read or written."""

    def __init__(self, place: str, reason: str) -> None:
        self.place, self.reason = place, reason
        super().__init__(f"Snapshots in {place} cannot be read or written: {reason}.")


class ScopeDroppedError(MnemosyneError):
    """Another process dropped a scope of the index (one session or one world) after this process had read it.

    An erasure or a rebuild drops a scope. Nothing was written.
    """

    def __init__(self, folder: str, scope: str) -> None:
        self.folder, self.scope = folder, scope
        super().__init__(
            f"The index of {scope!r} in {folder} was dropped by another process after this one had read it. Nothing was "
            "written; read the scope again."
        )


class EmbedderUnavailableError(MnemosyneError):
    """No embedding model is available, so the search continues by words only.

    If `is_refusal` is true, a model server refused or failed a call. The message then contains the server's answer,
    without credentials.
    """

    is_refusal = False


class PluginError(MnemosyneError):
    """A part that is found by its name is not available: no plugin has this name, or the plugin is broken."""
