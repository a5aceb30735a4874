"""The defaults of ingestion: trust, confidence, expiry, and which texts are the same. Pure.

The rules are separate so that they can be read and tested by themselves. It must not import a store or a redactor.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from mnemosyne.core.codec import encode
from mnemosyne.schema.evidence import Evidence, EvidenceSource, EvidenceType, SourceKind
from mnemosyne.schema.memory import Trust

TRUST_ORDER = (Trust.AUTHORED, Trust.USER, Trust.TOOL, Trust.MODEL, Trust.WEB)
"""Trust labels from the most to the least trusted."""

OWN_SCHEME = "mnemosyne://"
_OWN_WORLD = "mnemosyne://world:"
_WEB = ("http://", "https://", "ftp://", "ftps://")
_TRUST: Mapping[SourceKind, Trust] = {
    SourceKind.USER: Trust.USER,
    SourceKind.TOOL: Trust.TOOL,
    SourceKind.SKILL: Trust.TOOL,
    SourceKind.LLM: Trust.MODEL,
    SourceKind.SYSTEM: Trust.AUTHORED,
}
_CONFIDENCE: Mapping[SourceKind, float] = {
    SourceKind.SYSTEM: 1.0,
    SourceKind.TOOL: 0.9,
    SourceKind.SKILL: 0.8,
    SourceKind.USER: 0.8,
    SourceKind.RAG: 0.6,
    SourceKind.LLM: 0.5,
}
_FAILED = frozenset(("timeout", "forbidden", "not_found", "error"))
_FAILED_CONFIDENCE = 0.2
_WEB_CEILING = 0.7


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestRules:
    """Settings of an ingestor: how long evidence of a type is used (seconds; a type that is not named never expires)."""

    ttl_seconds: Mapping[EvidenceType, float] = field(default_factory=dict)


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
    fetched = source.kind in (SourceKind.RAG, SourceKind.TOOL, SourceKind.SKILL)
    return Trust.WEB if fetched and uri.startswith(_WEB) else label


def lowest_trust(labels: Iterable[Trust]) -> Trust:
    """Return the least trusted label; a text made from several is only as trusted as the worst of them."""
    return max(labels, key=TRUST_ORDER.index)


def confidence_of(source: EvidenceSource, trust: Trust, metadata: Mapping[str, Any]) -> float:
    """Return a confidence of 0..1 by rule (seed 002 section 6.3), for a text without one.

    A retrieval score in `metadata.score` counts as it is if it is within 0..1 (a cosine), a `metadata.distance` as 1 /
    (1 + distance), a `metadata.rank` (1 = best) as 0.9 for the first and 0.1 less for each after it, at least 0.3. A
    failed call (`metadata.status`) has 0.2. Otherwise by kind: system 1, tool 0.9, skill and user 0.8, retrieval 0.6,
    model 0.5. Nothing from the web has more than 0.7.
    """
    if str(metadata.get("status", "")).lower() in _FAILED:
        return _FAILED_CONFIDENCE
    value = _CONFIDENCE[source.kind]
    score, distance, rank = (_number(metadata.get(name)) for name in ("score", "distance", "rank"))
    if score is not None and 0.0 <= score <= 1.0:
        value = score
    elif distance is not None and distance >= 0.0:
        value = 1.0 / (1.0 + distance)
    elif rank is not None and rank >= 1.0:
        value = max(0.3, 0.9 - 0.1 * (rank - 1.0))
    return round(min(value, _WEB_CEILING) if trust is Trust.WEB else value, 4)


def check_confidence(value: float) -> float:
    """Return a given confidence; ValueError unless it is within 0..1."""
    if not (math.isfinite(value) and 0.0 <= value <= 1.0):
        raise ValueError(f"A confidence must be within 0..1; got {value!r}.")
    return float(value)


def content_hash(text: str) -> str:
    """Return the SHA-256 (hex) of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def args_digest(args: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hex) of a call's arguments; the order of keys does not matter."""
    return hashlib.sha256(encode(_in_order(args))).hexdigest()


def identity_uri(source: EvidenceSource, args: Mapping[str, Any] | None) -> str:
    """Return the uri that identifies a source: its own, or `tool:NAME#args=DIGEST` for a call; empty if it has neither."""
    if source.uri or args is None:
        return source.uri
    return f"{source.kind.value}:{source.name}#args={args_digest(args)}"


def expiry_time(at: datetime, seconds: float | None) -> datetime | None:
    """Return when evidence ingested at `at` expires; ValueError unless `seconds` is a positive number."""
    if seconds is None:
        return None
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"A time to live is a positive number of seconds; got {seconds!r}.")
    return at + timedelta(seconds=seconds)


def is_expired(evidence: Evidence, now: datetime) -> bool:
    """Return whether an evidence item has expired."""
    return evidence.expires_at is not None and evidence.expires_at <= now


def _in_order(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _in_order(value[key]) for key in sorted(value, key=str)}
    return [_in_order(item) for item in value] if isinstance(value, list | tuple) else value


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
