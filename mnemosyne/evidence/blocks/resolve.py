"""Resolves a ref to its present text, and compares this text with the text at the time when the ref was made.

A ref is a reference to an evidence item or a part of one. Prompts read evidence only through this module, so hash, expiry
and selector (the name of a part) are always checked. The module writes nothing.

Some items store no text, only a pointer (a uri). Pointers with the scheme `mnemosyne://` are followed here. Other pointers need
a fetcher of the host. A fetched text comes from outside. So its length is limited, secrets are removed from it, and it is compared
with the stored hash before it is returned to a caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import anyio
from anyio import to_thread

from mnemosyne.chains.uris import resolve_uri
from mnemosyne.core.errors import SelectorResolveError, StoreError, UriError
from mnemosyne.evidence.rules import OWN_SCHEME, is_expired
from mnemosyne.evidence.selectors import RefSelector
from mnemosyne.host_parts import HashText, hash_with_sha256, is_digest
from mnemosyne.protocols import Clock, Fetch, Redactor, Store, TextSelector
from mnemosyne.schema.evidence import ContextBlock, Evidence, RefFault, ResolvedRef
from mnemosyne.schema.memory import MemoryEntry
from mnemosyne.schema.session import Ref
from mnemosyne.values import dataclass

__all__ = ["FETCH_CHARS", "FETCH_SECONDS", "Fetch", "RefFault", "RefResolver", "ResolvedBlock", "ResolvedRef"]

FETCH_SECONDS = 1.0
FETCH_CHARS = 2_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedBlock:
    """Text of a block, with its resolved refs in order. `details` are sentences on refs that have faults."""

    block: ContextBlock
    text: str
    """Texts of the refs, or the block's own content if no ref gives a text."""
    refs: tuple[ResolvedRef, ...] = ()
    details: tuple[str, ...] = field(default_factory=tuple)
    error: str = ""
    """Sentence that states why the block could not be rendered, or '' if it could."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Content:
    """The whole text of an evidence item."""

    text: str = ""
    fault: str = ""
    """Reason why there is no text."""
    is_changed: bool = False
    """Whether it differs from the ingested text."""
    is_masked: bool = False
    """Whether redaction changed it only now, so that it is not the text whose parts were hashed."""


class RefResolver:
    """The built-in `EvidenceResolver`, for the refs in the sessions of one store.

    Args:
        fetchers: Functions that fetch the texts to which pointers lead, by the scheme of the pointer (`https`).
        hash_text: The host's hash function.
        text_selector: Applies selectors.
        redactor: Redacts the fetched texts.
        fetch_seconds: Time limit of each fetch.
        fetch_chars: Maximum number of characters of a fetched text.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        fetchers: Mapping[str, Fetch] | None = None,
        hash_text: HashText = hash_with_sha256,
        text_selector: TextSelector | None = None,
        redactor: Redactor | None = None,
        fetch_seconds: float = FETCH_SECONDS,
        fetch_chars: int = FETCH_CHARS,
    ) -> None:
        self._store, self._clock = store, clock
        self._fetchers = {scheme.lower(): fetch for scheme, fetch in (fetchers or {}).items()}
        self._hash_text, self._selector, self._redactor = hash_text, text_selector or RefSelector(), redactor
        self._fetch_seconds, self._fetch_chars = fetch_seconds, fetch_chars

    async def resolve(self, session_id: str, ref: Ref, evidence: Evidence | None = None) -> ResolvedRef:
        """Return the text of `ref`, or the reason why it has no text. Pass `evidence` if the item is loaded already.

        A fault of the ref is part of the result and does not raise an error. Raises StoreError if the store fails.
        """
        found = evidence or await self._store.get_evidence(session_id, ref.evidence_id)
        if found is None:
            where = "is kept elsewhere" if ref.remote else "is not there"
            return _fault_of(ref, RefFault.EVIDENCE_NOT_FOUND, f"evidence {ref.evidence_id} {where}")
        return await self.resolve_in(ref, found)

    async def resolve_in(self, ref: Ref, evidence: Evidence) -> ResolvedRef:
        """Return the text of `ref`, which points at `evidence`, or the reason why it has no text."""
        if is_expired(evidence, self._clock.now()):
            detail = f"evidence {ref.evidence_id} expired at {evidence.expires_at}"
            return _fault_of(ref, RefFault.EVIDENCE_EXPIRED, detail, evidence)
        content = _Content(text=evidence.content) if evidence.content else await self._fetch_content(evidence)
        if content.fault:
            return _fault_of(ref, RefFault.CONTENT_NOT_STORED, content.fault, evidence)
        text = content.text
        if ref.selector is not None:
            try:
                text = await to_thread.run_sync(self._selector.extract, text, ref.selector)
            except SelectorResolveError as error:
                return _fault_of(ref, RefFault.SELECTOR_RESOLVE_FAILED, str(error), evidence)
        changed = f"{evidence.source.uri} has changed since it was ingested" if content.is_changed else ""
        if not (content.is_masked or ref.hash is None or is_digest(ref.hash, text, self._hash_text)):
            changed = f"{ref.selector or 'the whole'} of evidence {ref.evidence_id} has changed"
        fault = RefFault.SOURCE_CHANGED if changed else None
        detail = f"{RefFault.SOURCE_CHANGED}: {changed}" if changed else ""
        return ResolvedRef(ref=ref, text=text, fault=fault, detail=detail, evidence=evidence)

    async def resolve_block(self, session_id: str, block: ContextBlock) -> ResolvedBlock:
        """Return the text of `block`: the texts of its refs, each on a new line. Sentences on faults are in `details`.

        Raises StoreError if the store fails, and no other error.
        """
        found = [await self.resolve(session_id, ref) for ref in block.refs]
        texts = [each.text for each in found if each.text]
        details = tuple(each.detail for each in found if each.detail)
        text = "\n".join(texts) if texts else block.content
        return ResolvedBlock(block=block, text=text, refs=tuple(found), details=details)

    async def _fetch_content(self, evidence: Evidence) -> _Content:
        """Return the text that a pointer leads to; a fetched text is bounded, redacted and compared."""
        uri = evidence.source.uri
        pointer = f"evidence {evidence.evidence_id} stores only a pointer ({uri or 'nowhere'})"
        if uri.startswith(OWN_SCHEME):
            text = await self._follow(uri)
            return _Content(fault=pointer) if text is None else self._compare(evidence, text, text)
        scheme = uri.partition(":")[0].lower()
        fetch = self._fetchers.get(scheme)
        if fetch is None:
            return _Content(fault=pointer)
        raw, fault = await self._fetch(fetch, uri)
        if fault:
            return _Content(fault=f"{pointer}, and the fetcher for {scheme} {fault}")
        if self._redactor is None:
            return self._compare(evidence, raw, raw)
        try:
            clean = (await self._redactor.redact(raw)).redacted_text
        except Exception as error:
            # If a redactor raises anything, the text was not searched to its end and must be withheld.
            return _Content(fault=f"{pointer}, and what it leads to could not be redacted ({type(error).__name__})")
        return self._compare(evidence, raw, clean)

    async def _fetch(self, fetch: Fetch, uri: str) -> tuple[str, str]:
        """Return the result of a fetcher, or half a sentence on why it cannot be shown."""
        try:
            with anyio.fail_after(self._fetch_seconds):
                text = await fetch(uri)
        except TimeoutError:
            return "", f"gave no answer within {self._fetch_seconds:g} s"
        except Exception as error:
            # The fetcher is the host's, and a turn continues without texts that cannot be fetched.
            return "", f"failed ({type(error).__name__}: {error})"
        if not isinstance(text, str):
            return "", f"returned {type(text).__name__}, not text"
        if len(text) > self._fetch_chars:
            return "", f"returned {len(text):,} characters, the limit is {self._fetch_chars:,}"
        return (text, "") if text else ("", "returned an empty text")

    def _compare(self, evidence: Evidence, raw: str, clean: str) -> _Content:
        known = evidence.content_hash
        if not known or is_digest(known, clean, self._hash_text):
            return _Content(text=clean)
        is_same = is_digest(known, raw, self._hash_text)
        return _Content(text=clean, is_changed=not is_same, is_masked=is_same)

    async def _follow(self, uri: str) -> str | None:
        try:
            named = await resolve_uri(self._store, uri)
        except (UriError, StoreError):
            return None
        if isinstance(named, Evidence):
            return named.content or None
        return named.text if isinstance(named, MemoryEntry) else None


def _fault_of(ref: Ref, fault: RefFault, detail: str, evidence: Evidence | None = None) -> ResolvedRef:
    return ResolvedRef(ref=ref, fault=fault, detail=f"{fault.value}: {detail}", evidence=evidence)
