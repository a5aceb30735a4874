"""Defines the protocols for text from outside: redactors, the vault for originals, ingestion as evidence, and importers.

Evidence is a stored text with its source. An original is the text of an evidence item before redaction. A redactor, a
detector or an importer needs no store. This module must not import another module of protocols.
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
    """Removes from a text the data that must not be stored.

    1. Everything that the rules find is removed from the result.
    2. Redacting a result again changes nothing.
    3. A text in which nothing is found is returned unchanged.
    4. A search that cannot be finished raises RedactionError; a partly searched text is never returned.
    5. The event loop is not blocked.
    """

    async def redact(self, text: str, rules: RedactionRules | None = None) -> RedactResult:
        """Return the text without the places that `rules` find (None: the redactor's own rules). Raises
        RedactionError if the search cannot be finished.
        """
        ...


class PiiDetector(Protocol):
    """Finds personal data that patterns cannot find. It runs its work off the event loop.

    1. Spans lie inside the text and are not empty. Their `rule` begins with `pii_` and has only lower-case letters
       and underscores.
    2. The same text always has the same spans. A placeholder `[redacted:…]` has none.
    """

    name: str

    async def detect(self, text: str) -> tuple[SensitiveSpan, ...]:
        """Return the spans of personal data, in any order; they may overlap. Any exception means that the search failed."""
        ...


class OriginalVault(Protocol):
    """Stores originals, the texts of evidence items before redaction, separately from the redacted texts.

    Nothing reads originals for a prompt. Every method raises OSError if the vault cannot be used.
    """

    async def put(self, session_id: str, evidence_id: str, original: str) -> None:
        """Store the original of an evidence item, in place of an older one."""
        ...

    async def get(self, session_id: str, evidence_id: str) -> str | None:
        """Return the original of an evidence item, or None if the vault has none."""
        ...

    async def drop(
        self, *, session_ids: Sequence[str] = (), evidence_ids: Sequence[str] = (), texts: Sequence[str] = ()
    ) -> int:
        """Delete originals and return how many were deleted.

        Args:
            session_ids: Originals of these sessions are deleted. If `evidence_ids` is not empty, only the originals of these
                evidence items are deleted.
            texts: Originals of any session that contain one of these texts are deleted, too.
        """
        ...

    async def count(
        self, *, session_ids: Sequence[str] = (), evidence_ids: Sequence[str] = (), texts: Sequence[str] = ()
    ) -> int:
        """Return how many originals `drop` would delete with the same arguments."""
        ...

    async def scrub(self, texts: Sequence[str], *, session_ids: Sequence[str], names: Sequence[str] = ()) -> int:
        """Cut `texts` and `names` out of the originals of the sessions `session_ids`, and return how many originals
        changed.

        `texts` are found by the rule of `mnemosyne.privacy.runs`, and `names` as whole words. The former content of a
        changed original is not left on disk.
        """
        ...

    async def walk_originals(
        self,
        visit: Callable[[StoredRow], bool],
        *,
        sessions: Collection[str] | None = None,
        without: Collection[str] = (),
    ) -> None:
        """Call `visit` with every original, until `visit` returns False. The place of an original is
        `originals/session/evidence`.

        Args:
            visit: Called in another thread.
            sessions: Only originals of these sessions (None: all).
            without: No originals of these sessions.
        """
        ...


class EvidenceIngestor(Protocol):
    """Ingests text as evidence: redacts a text and stores it with its source.

    1. Places that the redactor finds are never stored. If the redactor fails, the text is withheld, unless the call
       allows the text to pass.
    2. The same text of the same source is one evidence item. The second call returns the item of the first.
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
        """Store a text as evidence and return the evidence item, or the existing item with the same text and source.

        Raises:
            SessionNotFoundError: if there is no such session.
            EvidenceNotFoundError: for an unknown id in `derived_from`.
            ValueError: for a confidence outside 0..1, or a time to live that is not positive.
            RedactionError: if a user's own words cannot be searched.
        """
        ...


class Importer(Protocol):
    """Reads conversations, books or cards of another format. An importer only reads; the caller writes the result to
    a store.

    1. The same file gives the same sessions, with the same ids of turns and entries. So importing the file again adds
       nothing.
    2. Contents of the file that a session cannot store are listed in `notes`.
    3. A file that cannot be read raises CorpusError, which names the file and the place in it. A partly read file is
       never returned.

    `read` is called in a worker thread.
    """

    def read(self, path: Path, request: ImportRequest) -> ImportedConversations | ImportedFile:
        """Return the sessions of a file or folder, in the order of the file, or its other content (`ImportedFile`).
        Raises CorpusError if `path` cannot be read.
        """
        ...
