"""Protocols for text from outside: redaction, the vault for originals, ingestion as evidence, importers of
conversations.

A redactor, a detector or an importer needs no store. It must not import another module of protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from mnemosyne.schema.erasure import StoredRow
from mnemosyne.schema.evidence import EvidenceLinks, EvidenceSource, EvidenceType
from mnemosyne.schema.imported_files import ImportedFile
from mnemosyne.schema.ingest import IngestOptions, IngestResult
from mnemosyne.schema.record import ImportedConversations, ImportRequest
from mnemosyne.schema.redaction import RedactionRules, RedactResult, SensitiveSpan


class Redactor(Protocol):
    """Removes data that must not be stored from a text.

    1. Everything that its rules find is removed from the result.
    2. Redacting a result again changes nothing.
    3. A text in which nothing is found is returned unchanged.
    4. A search that cannot be finished raises RedactionError; a partly searched text is never returned.
    5. The event loop is not blocked.
    """

    async def redact(self, text: str, rules: RedactionRules | None = None) -> RedactResult:
        """Return the text without the finds of the rules (None: the redactor's own); RedactionError if the search
        cannot be finished.
        """
        ...


class PiiDetector(Protocol):
    """Finds personal data that patterns cannot find; runs its work off the event loop.

    1. Spans lie inside the text and are not empty; their `rule` begins with `pii_` (lower-case letters and
       underscores).
    2. The same text has the same spans, and a placeholder `[redacted:…]` has none.
    """

    name: str

    async def detect(self, text: str) -> tuple[SensitiveSpan, ...]:
        """Return the spans of personal data, in any order; they may overlap. Any exception means that the search
        failed.
        """
        ...


class OriginalVault(Protocol):
    """Stores originals separately from their redacted form. Nothing reads them for a prompt.
    Every method raises OSError when the vault cannot be used.
    """

    async def put(self, session_id: str, evidence_id: str, original: str) -> None:
        """Store an original, replacing an older one of this evidence item."""
        ...

    async def get(self, session_id: str, evidence_id: str) -> str | None:
        """Return an original, or None."""
        ...

    async def drop(
        self, *, session_ids: Sequence[str] = (), evidence_ids: Sequence[str] = (), texts: Sequence[str] = ()
    ) -> int:
        """Delete the originals of sessions (only of `evidence_ids`, if given), and all that contain one of `texts`;
        return how many.
        """
        ...

    async def count(
        self, *, session_ids: Sequence[str] = (), evidence_ids: Sequence[str] = (), texts: Sequence[str] = ()
    ) -> int:
        """Return how many originals `drop` would delete."""
        ...

    async def scrub(self, texts: Sequence[str], *, session_ids: Sequence[str], names: Sequence[str] = ()) -> int:
        """Cut these texts out of the originals of sessions, by the rule of `mnemosyne.privacy.runs`, and `names` as
        whole words; return how many originals were changed. Nothing of their former content is left.
        """
        ...

    async def walk_originals(
        self,
        visit: Callable[[StoredRow], bool],
        *,
        sessions: Collection[str] | None = None,
        without: Collection[str] = (),
    ) -> None:
        """Call `visit` with every original (place `originals/session/evidence`), until it returns False.

        Args:
            visit: Called in another thread.
            sessions: Only originals of these sessions (None: all).
            without: No originals of these sessions.
        """
        ...


class EvidenceIngestor(Protocol):
    """Ingests text as evidence.

    1. Finds of the redactor are never stored; if it fails, the text is withheld, unless the call allows it to pass.
    2. The same text of the same source is one evidence item; the second call returns the first one's.
    3. Text that the prompt had shown never becomes new evidence.
    4. Expired evidence is not used, not even as a duplicate.
    5. With `dry_run` nothing is stored; the result is a preview.
    """

    async def ingest(
        self,
        session_id: str,
        content: str,
        source: EvidenceSource,
        evidence_type: EvidenceType,
        *,
        links: EvidenceLinks | None = None,
        metadata: Mapping[str, Any] | None = None,
        options: IngestOptions | None = None,
    ) -> IngestResult:
        """Store a text as evidence and return the evidence item, or the existing one with the same text and source.

        SessionNotFoundError; EvidenceNotFoundError for an unknown id in `derived_from`; ValueError for a confidence
        outside 0..1 or a time to live that is not positive; RedactionError for a user's own words that cannot be searched.
        """
        ...


class Importer(Protocol):
    """Reads conversations, books or cards of another format. It only reads; the caller writes the result to a store.

    1. The same file gives the same sessions, with the same ids of turns and entries: importing it again adds nothing.
    2. Contents of the file that a session cannot store are listed in `notes`.
    3. A file that cannot be read raises CorpusError, which names the file and the place in it; a partly read file is
       never returned.

    It is called in a worker thread.
    """

    def read(self, path: Path, request: ImportRequest) -> ImportedConversations | ImportedFile:
        """Return the sessions of a file or folder, in its order, or its other content; CorpusError if it cannot be
        read.
        """
        ...
