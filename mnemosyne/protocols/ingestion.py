"""How text comes in: as evidence, redacted, its original kept apart or not at all, each text once (seed 002 sections 6.3, 6.8 and
8.4), and as whole conversations of other formats.

A redactor, a detector or an importer needs no store. It must not import another module of protocols.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from mnemosyne.schema.evidence import EvidenceLinks, EvidenceSource, EvidenceType
from mnemosyne.schema.ingest import IngestOptions, IngestResult
from mnemosyne.schema.record import ImportedConversations, ImportRequest
from mnemosyne.schema.redaction import RedactionRules, RedactResult, SensitiveSpan


class Redactor(Protocol):
    """Takes out of a text what must not be kept (seed 002 section 6.8).

    1. What its rules find is not in the result.
    2. Redacting a result again changes nothing.
    3. A text without anything to find comes back as it is.
    4. A search that cannot be finished raises RedactionError; nothing half searched is ever returned.
    5. The event loop is not held up.
    """

    async def redact(self, text: str, rules: RedactionRules | None = None) -> RedactResult:
        """Return the text without what the rules (None: the redactor's own) find; RedactionError."""
        ...


class PiiDetector(Protocol):
    """Finds personal data that patterns alone do not; runs its work off the event loop.

    1. Spans lie inside the text and are not empty; their `rule` begins with `pii_` (lower-case letters and underscores).
    2. The same text has the same spans, and a placeholder `[redacted:…]` has none.
    """

    name: str

    async def detect(self, text: str) -> tuple[SensitiveSpan, ...]:
        """Return what was found, in any order; spans may overlap."""
        ...


class OriginalVault(Protocol):
    """Keeps originals apart from what redaction made of them (seed 002 section 8.4). Nothing here reads them for a prompt."""

    async def put(self, session_id: str, evidence_id: str, original: str) -> None:
        """Keep an original; OSError where it cannot be kept."""
        ...

    async def get(self, session_id: str, evidence_id: str) -> str | None:
        """Return an original, or None."""
        ...

    async def drop(
        self, *, session_ids: Sequence[str] = (), evidence_ids: Sequence[str] = (), texts: Sequence[str] = ()
    ) -> int:
        """Forget the originals of sessions (of `evidence_ids` alone in them), and all that hold one of `texts`; how many."""
        ...

    async def count(
        self, *, session_ids: Sequence[str] = (), evidence_ids: Sequence[str] = (), texts: Sequence[str] = ()
    ) -> int:
        """Return how many `drop` would forget."""
        ...


class EvidenceIngestor(Protocol):
    """Takes text in as evidence (seed 002 section 6.3).

    1. What the redactor finds is never stored; where it fails the text is withheld, unless the call lets it pass.
    2. The same text of the same source is one evidence; the second call returns the first one's.
    3. Text that the prompt had shown never becomes new evidence.
    4. Evidence that has expired counts for nothing: not as a duplicate either.
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
        """Keep a text; SessionNotFoundError, EvidenceNotFoundError (`derived_from`), ValueError (confidence, ttl)."""
        ...


class Importer(Protocol):
    """Reads conversations of another format. It only reads: whoever called writes what it returns to a store.

    1. The same file gives the same sessions, with the same ids of turns and entries: to import again adds nothing.
    2. What the file holds and a session cannot keep is told in `notes`.
    3. A file that cannot be read raises CorpusError, which names the file and the place in it; nothing half read is returned.

    It is called in a worker thread.
    """

    def read(self, path: Path, request: ImportRequest) -> ImportedConversations:
        """Return the sessions of a file or folder, in its order; CorpusError."""
        ...
