"""Resolves a ref to the text that it points at now, and compares that with the text it pointed at when it was made
(seed 002 sections 5, 6.6 and 18.2).

Prompts read evidence through here only, so its hash, its expiry and its selector are always checked. It knows the store
by protocol and writes nothing. Pointers of our own scheme are followed; others need a fetcher.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from anyio import to_thread

from mnemosyne.chains.uris import resolve_uri
from mnemosyne.core.errors import SelectorResolveError, StoreError, UriError
from mnemosyne.evidence.rules import OWN_SCHEME, content_hash, is_expired
from mnemosyne.evidence.selectors import extract, ref_hash
from mnemosyne.protocols import Clock, Store
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.memory import MemoryEntry
from mnemosyne.schema.session import Ref

Fetch = Callable[[str], Awaitable[str]]
"""Returns the text at an address; raises OSError or ValueError if there is none."""


class RefFault(StrEnum):
    """Why a ref does not give the text that it was made for; also the code of the degradation that reports it."""

    SOURCE_CHANGED = "source_changed"
    EVIDENCE_NOT_FOUND = "evidence_not_found"
    SELECTOR_RESOLVE_FAILED = "selector_resolve_failed"
    EVIDENCE_EXPIRED = "evidence_expired"
    CONTENT_NOT_STORED = "content_not_stored"


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedRef:
    """The text of a ref. With `fault` SOURCE_CHANGED it is the current text; with any other fault there is none.

    `detail` is a sentence that begins with the fault's code.
    """

    ref: Ref
    text: str = ""
    fault: RefFault | None = None
    detail: str = ""
    evidence: Evidence | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedBlock:
    """The text of a block, and its refs in order. If none of them gives a text, it is the block's own content."""

    block: ContextBlock
    text: str
    refs: tuple[ResolvedRef, ...] = ()
    details: tuple[str, ...] = field(default_factory=tuple)


class RefResolver:
    """Resolves refs of one store's sessions. `fetchers`, by scheme (`https`), fetch the text of pointers to other
    places.
    """

    def __init__(self, store: Store, clock: Clock, *, fetchers: Mapping[str, Fetch] | None = None) -> None:
        self._store, self._clock, self._fetchers = store, clock, dict(fetchers or {})

    async def resolve(self, session_id: str, ref: Ref) -> ResolvedRef:
        """Return the text of a ref, or why there is none. It never raises for a ref; StoreError from the store."""
        evidence = await self._store.get_evidence(session_id, ref.evidence_id)
        if evidence is None:
            where = "is kept elsewhere" if ref.remote else "is not there"
            return _fault_of(ref, RefFault.EVIDENCE_NOT_FOUND, f"evidence {ref.evidence_id} {where}")
        return await self.resolve_in(ref, evidence)

    async def resolve_in(self, ref: Ref, evidence: Evidence) -> ResolvedRef:
        """Return the text of a ref to an evidence item that is loaded already."""
        if is_expired(evidence, self._clock.now()):
            detail = f"evidence {ref.evidence_id} expired at {evidence.expires_at}"
            return _fault_of(ref, RefFault.EVIDENCE_EXPIRED, detail, evidence)
        content = evidence.content
        changed = ""
        if not content:
            fetched = await self._fetch_text(evidence.source.uri)
            if fetched is None:
                detail = f"evidence {ref.evidence_id} stores only a pointer ({evidence.source.uri or 'nowhere'})"
                return _fault_of(ref, RefFault.CONTENT_NOT_STORED, detail, evidence)
            content = fetched
            if evidence.content_hash not in ("", content_hash(content)):
                changed = f"{evidence.source.uri} has changed since it was ingested"
        text = content
        if ref.selector is not None:
            try:
                text = (await to_thread.run_sync(extract, content, ref.selector)).text
            except SelectorResolveError as error:
                return _fault_of(ref, RefFault.SELECTOR_RESOLVE_FAILED, str(error), evidence)
        if ref.hash not in (None, ref_hash(text)):
            changed = f"{ref.selector or 'the whole'} of evidence {ref.evidence_id} has changed"
        fault = RefFault.SOURCE_CHANGED if changed else None
        detail = f"{RefFault.SOURCE_CHANGED}: {changed}" if changed else ""
        return ResolvedRef(ref=ref, text=text, fault=fault, detail=detail, evidence=evidence)

    async def resolve_block(self, session_id: str, block: ContextBlock) -> ResolvedBlock:
        """Return the text of a block: the texts of its refs, each on new lines. Faults are in `details`; only
        StoreError is raised.
        """
        found = [await self.resolve(session_id, ref) for ref in block.refs]
        texts = [each.text for each in found if each.text]
        details = tuple(each.detail for each in found if each.detail)
        text = "\n".join(texts) if texts else block.content
        return ResolvedBlock(block=block, text=text, refs=tuple(found), details=details)

    async def _fetch_text(self, uri: str) -> str | None:
        if uri.startswith(OWN_SCHEME):
            try:
                named = await resolve_uri(self._store, uri)
            except (UriError, StoreError):
                return None
            if isinstance(named, Evidence):
                return named.content or None
            return named.text if isinstance(named, MemoryEntry) else None
        fetch = self._fetchers.get(uri.partition(":")[0].lower())
        if fetch is None:
            return None
        try:
            return await fetch(uri)
        except (OSError, ValueError):
            return None


def _fault_of(ref: Ref, fault: RefFault, detail: str, evidence: Evidence | None = None) -> ResolvedRef:
    return ResolvedRef(ref=ref, fault=fault, detail=f"{fault.value}: {detail}", evidence=evidence)
