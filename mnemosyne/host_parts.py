"""The parts that a host may replace and seldom does: the clock, ids, hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import uuid4


class SystemClock:
    """The machine's time."""

    def now(self) -> datetime:
        """Return the present as an aware datetime."""
        return datetime.now(UTC)

    def now_iso(self) -> str:
        """Return the present as ISO 8601 text."""
        return self.now().isoformat()


class UuidV4Generator:
    """Makes random ids."""

    def generate(self) -> str:
        """Return a new UUID, version 4, as 36 characters."""
        return str(uuid4())


class Sha256Hasher:
    """Hashes texts, so that the same text is found again."""

    def digest(self, content: str) -> str:
        """Return the SHA-256 of a text in UTF-8, as 64 hexadecimal digits; lone surrogates are hashed too."""
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


HashText = Callable[[str], str]
"""The `digest` of a hasher."""

DEFAULT_HASHER = Sha256Hasher()
"""What hashes texts where a host brings no hasher of its own."""

hash_with_sha256: HashText = DEFAULT_HASHER.digest


def digest_of(text: str, hash_text: HashText) -> str:
    """Return the digest of a text: that of a host's hasher, or the default one if that fails, so that nothing is lost by it."""
    return _ask(text, hash_text) or hash_with_sha256(text)


def is_digest(known: str, text: str, hash_text: HashText) -> bool:
    """Return whether a digest may be that of a text: by a host's hasher (where that fails, by it any) or by the default one.

    What was written before a host brought its own hasher has the default digest.
    """
    return known == hash_with_sha256(text) or (own := _ask(text, hash_text)) is None or known == own


def digests_of(text: str, hash_text: HashText) -> tuple[str, ...]:
    """Return the digests under which a text may be known: that of a host's hasher and the default one; none if the hasher fails."""
    own = _ask(text, hash_text)
    return () if own is None else tuple(dict.fromkeys((own, hash_with_sha256(text))))


def _ask(text: str, hash_text: HashText) -> str | None:
    """Return what a hasher returns; None where it fails or returns no text."""
    try:
        digest = hash_text(text)
    except Exception:
        return None
    return digest if isinstance(digest, str) and digest else None
