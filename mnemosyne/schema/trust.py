"""How far a text may be trusted, by where it came from (spec 3.6). Pure.

Ingestion, documents and prompts read trust by these rules alone, so that a text has the same label whatever road it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mnemosyne.schema.evidence import EvidenceSource, EvidenceType, SourceKind
from mnemosyne.schema.memory import Trust

TRUST_ORDER = (Trust.AUTHORED, Trust.USER, Trust.TOOL, Trust.MODEL, Trust.WEB)
"""Trust labels from the most to the least trusted."""

OWN_SCHEME = "mnemosyne://"
_OWN_WORLD = f"{OWN_SCHEME}world:"
_WEB = ("http://", "https://", "ftp://", "ftps://")
_TRUST: Mapping[SourceKind, Trust] = {
    SourceKind.USER: Trust.USER,
    SourceKind.TOOL: Trust.TOOL,
    SourceKind.SKILL: Trust.TOOL,
    SourceKind.LLM: Trust.MODEL,
    SourceKind.SYSTEM: Trust.AUTHORED,
}
_FETCHING = (SourceKind.RAG, SourceKind.TOOL, SourceKind.SKILL)
_DEEPEST = 20


def trust_of(source: EvidenceSource, kind: EvidenceType) -> Trust:
    """Return the trust label of a source (spec 3.6).

    It depends on the source's kind; whatever comes from a web address is `web`, even when a tool fetched it. Retrieved
    text is `authored` only if it is the world's own lore, otherwise it has the label of the tool that found it.
    """
    uri = source.uri.strip().lower()
    label = _TRUST.get(source.kind, Trust.TOOL)
    if source.kind is SourceKind.RAG:
        label = Trust.AUTHORED if uri.startswith(_OWN_WORLD) else Trust.TOOL
    if kind is EvidenceType.LLM_OUTPUT:
        label = lowest_trust((label, Trust.MODEL))
    if kind is EvidenceType.USER_INPUT:
        label = lowest_trust((label, Trust.USER))
    return Trust.WEB if source.kind in _FETCHING and uri.startswith(_WEB) else label


def trust_in_document(source: EvidenceSource, kind: EvidenceType) -> Trust:
    """Return the trust of evidence that states none in its document (seed 001 has no such field).

    A memory that a turn recalled is `authored` then: other labels of memories are always written.
    """
    is_memory = source.kind is SourceKind.RAG and source.uri.startswith(OWN_SCHEME)
    return Trust.AUTHORED if is_memory else trust_of(source, kind)


def lowest_trust(labels: Iterable[Trust]) -> Trust:
    """Return the least trusted label; a text made from several is only as trusted as the worst of them."""
    return max(labels, key=TRUST_ORDER.index)


def names_web_address(args: Any, depth: int = 0) -> bool:
    """Return whether the arguments of a call hold a web address: what the call returned may have come from there."""
    if isinstance(args, str):
        return args.strip().lower().startswith(_WEB)
    if depth > _DEEPEST:
        return True
    if isinstance(args, Mapping):
        return any(names_web_address(each, depth + 1) for each in args.values())
    return isinstance(args, list | tuple) and any(names_web_address(each, depth + 1) for each in args)


def trust_of_call(source: EvidenceSource, kind: EvidenceType, args: Mapping[str, Any] | None) -> Trust:
    """Return the trust label of what a call with these arguments returned."""
    label = trust_of(source, kind)
    is_fetched = source.kind in _FETCHING and names_web_address(args)
    return lowest_trust((label, Trust.WEB)) if is_fetched else label
