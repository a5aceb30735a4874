"""Clock, id generator and hasher: parts that a host may replace and seldom does."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import uuid4


class SystemClock:
    """Clock of the machine."""

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
"""Hasher of texts unless a host brings its own."""

hash_with_sha256: HashText = DEFAULT_HASHER.digest


def digest_of(text: str, hash_text: HashText) -> str:
    """Return the digest of a text by a host's hasher, or by the default one if that fails, so that nothing is lost."""
    return _ask(text, hash_text) or hash_with_sha256(text)


def is_digest(known: str, text: str, hash_text: HashText) -> bool:
    """Return whether a digest may belong to a text: by a host's hasher (any digest if it fails) or by the default one.

    Records from before a host brought its own hasher have the default digest.
    """
    return known == hash_with_sha256(text) or (own := _ask(text, hash_text)) is None or known == own


def digests_of(text: str, hash_text: HashText) -> tuple[str, ...]:
    """Return the digests that a text may have: by a host's hasher and by the default one; none if the hasher fails."""
    own = _ask(text, hash_text)
    return () if own is None else tuple(dict.fromkeys((own, hash_with_sha256(text))))


def _ask(text: str, hash_text: HashText) -> str | None:
    """Return the answer of a hasher; None if it fails or returns no text."""
    try:
        digest = hash_text(text)
    except Exception:
        return None
    return digest if isinstance(digest, str) and digest else None
