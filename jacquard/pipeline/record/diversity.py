"""Limits that keep one document or source from filling the evidence alone (seed 000 section 9). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from mnemosyne.chains.uris import EntryAddress, EvidenceAddress, TurnAddress, parse_uri
from mnemosyne.core.errors import UriError
from mnemosyne.schema.package import EvidenceItem

RESULTS = "results"
"""The group of all results of tools and searches in the session."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DroppedItem:
    """An item that was left out: `rule` is `by_document` or `by_source`, `limit` is how many of `name` it allows."""

    item_id: str
    rule: str
    name: str
    limit: int

    def __str__(self) -> str:
        return f"evidence {self.item_id}: diversity.{self.rule}: {self.name} has its {self.limit} already"


def constrain(
    items: Sequence[EvidenceItem], *, by_document: int = 3, by_source: int = 10
) -> tuple[tuple[EvidenceItem, ...], tuple[DroppedItem, ...]]:
    """Return the items that stay, in their order, and those that are left out; the first of each document and source
    stay.

    Items are best first. Both results together are all items, each once.
    """
    documents: Counter[tuple[str, str]] = Counter()
    sources: Counter[str] = Counter()
    kept: list[EvidenceItem] = []
    cuts: list[DroppedItem] = []
    for item in items:
        document, source = document_of(item), source_of(item)
        if documents[document] >= by_document:
            cuts.append(DroppedItem(item_id=item.id, rule="by_document", name=document[1], limit=by_document))
        elif sources[source] >= by_source:
            cuts.append(DroppedItem(item_id=item.id, rule="by_source", name=source, limit=by_source))
        else:
            documents[document] += 1
            sources[source] += 1
            kept.append(item)
    return tuple(kept), tuple(cuts)


def document_of(item: EvidenceItem) -> tuple[str, str]:
    """Return what an item is part of, as (kind, name): its document, else the turn in which it was said, else itself.

    A result of the session is a document of its own; a turn or a document of memory may have the same id.
    """
    if name := item.ref.get("document_id"):
        return (RESULTS if item.group == RESULTS else "document"), name
    if name := item.ref.get("turn_id"):
        return "turn", name
    return ("uri", item.source_uri) if item.source_uri else ("item", item.id)


def source_of(item: EvidenceItem) -> str:
    """Return where an item was found: a chain of one of our scopes, the site of any other address, else its `source`."""
    try:
        address = parse_uri(item.source_uri)
    except UriError:
        return _site(item.source_uri) or item.source
    match address:
        case EntryAddress(scope=scope, chain=chain):
            return f"{scope}/{chain.value}"
        case TurnAddress(session_id=session_id):
            return f"session:{session_id}/turn"
        case EvidenceAddress(session_id=session_id):
            return f"session:{session_id}/evidence"


def _site(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme else ""
