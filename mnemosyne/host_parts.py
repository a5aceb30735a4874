"""Implements the default clock, id generator and hasher. A host may replace each of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import uuid4


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the current time as an aware datetime."""
        return datetime.now(UTC)

    def now_iso(self) -> str:
        """Return the current time as ISO 8601 text."""
        return self.now().isoformat()


class UuidV4Generator:
    """Makes random ids."""

    def generate(self) -> str:
        """Return a new UUID, version 4, as 36 characters."""
        return str(uuid4())


class Sha256Hasher:
    """Computes digests of texts. Equal texts have equal digests."""

    def digest(self, content: str) -> str:
        """Return the SHA-256 of a text in UTF-8, as 64 hexadecimal digits; lone surrogates are hashed too."""
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


HashText = Callable[[str], str]
"""Function that returns the digest of a text: the `digest` of a hasher."""

DEFAULT_HASHER = Sha256Hasher()
"""Hasher that is used unless a host brings its own."""

hash_with_sha256: HashText = DEFAULT_HASHER.digest


def digest_of(text: str, hash_text: HashText) -> str:
    """Return the digest of `text` by `hash_text`, a function of the host. If `hash_text` fails, return the default digest."""
    return _ask(text, hash_text) or hash_with_sha256(text)


def is_digest(known: str, text: str, hash_text: HashText) -> bool:
    """Return whether `known` is a digest of `text`, by the host's `hash_text` or by the default hasher.

    The default hasher is tried too, because records from before the host brought its own hasher contain digests of the default
    hasher. If `hash_text` fails, return True for every `known`.
    """
    return known == hash_with_sha256(text) or (own := _ask(text, hash_text)) is None or known == own


def digests_of(text: str, hash_text: HashText) -> tuple[str, ...]:
    """Return the digests that `text` may have in a record: the digest by the host's `hash_text`, then the digest by the default
    hasher. Equal digests are returned once. The result is empty if `hash_text` fails.
    """
    own = _ask(text, hash_text)
    return () if own is None else tuple(dict.fromkeys((own, hash_with_sha256(text))))


def _ask(text: str, hash_text: HashText) -> str | None:
    """Return the answer of a hasher, or None if it fails or returns no text."""
    try:
        digest = hash_text(text)
    except Exception:
        return None
    return digest if isinstance(digest, str) and digest else None
