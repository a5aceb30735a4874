"""Applies the default rules for evidence (text from outside): confidence, trust, time of expiry, and identity of texts.

Confidence says how reliable a text is (0..1). The module must not import a store or a redactor.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from mnemosyne.core.codec import encode
from mnemosyne.host_parts import hash_with_sha256
from mnemosyne.schema.evidence import (
    OWN_SCHEME,
    TRUST_ORDER,
    Evidence,
    EvidenceSource,
    EvidenceType,
    SourceKind,
    is_memory,
    lowest_trust,
    trust_of,
    trust_of_call,
)
from mnemosyne.schema.memory import Trust
from mnemosyne.values import dataclass

__all__ = [
    "OWN_SCHEME",
    "TRUST_ORDER",
    "IngestRules",
    "check_confidence",
    "confidence_of",
    "expiry_time",
    "identity_uri",
    "is_expired",
    "is_memory",
    "lowest_trust",
    "trust_of",
    "trust_of_call",
]

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
    """Settings of an ingestor."""

    ttl_seconds: Mapping[EvidenceType, float] = field(default_factory=dict)
    """Number of seconds for which evidence is used, by its type. Evidence of a type that is not listed never expires."""


def confidence_of(source: EvidenceSource, trust: Trust, metadata: Mapping[str, Any]) -> float:
    """Return the confidence (0..1) of a text from `source` for which the caller gave no confidence.

    - A retrieval score in `metadata.score` that is within 0..1 (a cosine) is the confidence.
    - For a `metadata.distance` the confidence is 1 / (1 + distance).
    - For a `metadata.rank` the confidence is 0.9 at rank 1 and 0.1 less for each further rank, but at least 0.3.
    - The text of a failed call (`metadata.status`) has 0.2.
    - Otherwise the kind of source decides: system 1, tool 0.9, skill and user 0.8, retrieval 0.6, model 0.5.
    - Text from the web never has more than 0.7.
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
    """Return the confidence `value`. Raises ValueError unless it is within 0..1."""
    if not (math.isfinite(value) and 0.0 <= value <= 1.0):
        raise ValueError(f"A confidence must be within 0..1; got {value!r}.")
    return float(value)


def content_hash(text: str) -> str:
    """Return the SHA-256 (hex) of `text`."""
    return hash_with_sha256(text)


def args_digest(args: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hex) of the arguments of a call. The order of keys does not matter."""
    return hashlib.sha256(encode(_in_order(args))).hexdigest()


def identity_uri(source: EvidenceSource, args: Mapping[str, Any] | None) -> str:
    """Return the uri that identifies the source of a text.

    The result is the uri of `source`. If `source` has no uri and is a call with the arguments `args`, the result is a text such
    as `tool:NAME#args=DIGEST`. If `source` has no uri and `args` is None, the result is ''.
    """
    if source.uri or args is None:
        return source.uri
    return f"{source.kind.value}:{source.name}#args={args_digest(args)}"


def expiry_time(at: datetime, seconds: float | None) -> datetime | None:
    """Return the time `seconds` after `at`, when evidence that was ingested at `at` expires.

    Return None if `seconds` is None, because the evidence then never expires.

    Raises ValueError unless `seconds` is a positive number and the time is before the year 10000.
    """
    if seconds is None:
        return None
    try:
        if math.isfinite(seconds) and seconds > 0:
            return at + timedelta(seconds=seconds)
    except OverflowError:
        pass
    raise ValueError(
        f"A time to live is a positive number of seconds that ends before the year 10000; got {seconds!r}."
    )


def is_expired(evidence: Evidence, now: datetime) -> bool:
    """Return whether `evidence` has expired at the time `now`."""
    return evidence.expires_at is not None and evidence.expires_at <= now


def _in_order(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _in_order(value[key]) for key in sorted(value, key=str)}
    return [_in_order(item) for item in value] if isinstance(value, list | tuple) else value


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
