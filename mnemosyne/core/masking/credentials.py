"""Masks credentials in errors, events, log lines and terminal output.

Parts of the product register their credentials with `remember_secrets` or `remember_address` when they receive them. From
then on `mask_credentials` replaces each credential in every spelling that clients and drivers use. The function also
recognises credentials that were not registered: user and password of an address, authorization headers, and values that are
named as a key or a password. The registered credentials are kept only in memory, per process; if there are too many, the
oldest are forgotten.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable
from typing import TypeVar
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from mnemosyne.core.masking.addresses import HIDDEN, mask_user_info, secrets_of

E = TypeVar("E", bound=BaseException)

LEAST_CHARS = 8
"""Least length of a secret that is remembered, because replacing a shorter one would also replace harmless words. A shorter
secret is masked only if a call passes it to `mask_credentials`.
"""

_MOST_SPELLINGS = 4_096
_LEAST_IN_CALL_CHARS = 3

_WORDS = (
    r"(?:x-)?(?:[a-z0-9]{1,24}[_-]){0,4}(?:api[_-]?key|apikey|access[_-]?key|secret[_-]?key|client[_-]?secret|sslpassword|"
    r"passw(?:or)?d|passphrase|auth[_-]?token|access[_-]?token|refresh[_-]?token)"
)
_VALUE = r"b?(?:'[^'\n]{1,4096}'|\"[^\"\n]{1,4096}\"|[^\s'\",;&)}\]]+)"
_HEADER = re.compile(
    r"((?:proxy-)?authorization['\"]?\s{0,4}[:=,]\s{0,4}(?:b?['\"])?)(?:(?:bearer|basic|token|digest)\s{1,4})?[^\s'\",;)}\]]+",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"\b(bearer|basic)(\s{1,4})[\w.~+/=*-]{6,}", re.IGNORECASE)
_ASSIGNED = re.compile(rf"(?<![a-z0-9])({_WORDS}\s{{0,4}}=\s{{0,4}}){_VALUE}", re.IGNORECASE)
_IN_MAPPING = re.compile(rf"(['\"]{_WORDS}['\"]\s{{0,4}}[:,]\s{{0,4}}){_VALUE}", re.IGNORECASE)
_KEY_HEADER = re.compile(r"(?<![a-z0-9])((?:x-[a-z-]{0,24})?api-key:\s{0,4})[^\s'\",;)}\]]+", re.IGNORECASE)
_QUERY = re.compile(
    r"([?&;](?:[a-z0-9]{1,24}[_-]){0,4}(?:key|apikey|secret|token|passw(?:or)?d|pwd|sig|signature|auth|credential)=)"
    r"[^&;#\s'\"<>)\]}]+",
    re.IGNORECASE,
)


class _KnownSecrets:
    """Spellings of the secrets of this process, and one pattern of all of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spellings: dict[str, None] = {}
        self._pattern: re.Pattern[str] | None = None

    def add(self, secrets: Iterable[str]) -> None:
        found = {form for secret in secrets for form in spellings(secret) if len(form) >= LEAST_CHARS}
        with self._lock:
            if found <= self._spellings.keys():
                return
            self._spellings |= dict.fromkeys(sorted(found))
            for oldest in list(self._spellings)[: max(0, len(self._spellings) - _MOST_SPELLINGS)]:
                del self._spellings[oldest]
            self._pattern = _pattern_of(self._spellings)

    def hide(self, text: str) -> str:
        pattern = self._pattern
        return text if pattern is None else pattern.sub(HIDDEN, text)


_known = _KnownSecrets()


def remember_secrets(*secrets: str | None) -> None:
    """Register secrets, so that `mask_credentials` replaces them in every text from now on in this process."""
    _known.add(each for each in secrets if each)


def remember_address(address: str | None) -> None:
    """Register the secrets of an address: user, password, fragment and the values of its query."""
    if address:
        _known.add(secrets_of(address))


def mask_credentials(text: str, *secrets: str | None) -> str:
    """Return `text` without credentials: the registered ones, recognisable ones, and `secrets`.

    `secrets` are the secrets of the call that the text is about. Each that has at least 3 characters is replaced.
    """
    text = _known.hide(text)
    given = {form for each in secrets if each for form in spellings(each) if len(form) >= _LEAST_IN_CALL_CHARS}
    if given:
        text = _pattern_of(given).sub(HIDDEN, text)
    text = mask_user_info(text)
    text = _HEADER.sub(rf"\1{HIDDEN}", text)
    text = _SCHEME.sub(rf"\1\2{HIDDEN}", text)
    for named in (_ASSIGNED, _IN_MAPPING, _KEY_HEADER, _QUERY):
        text = named.sub(rf"\1{HIDDEN}", text)
    return text


def mask_beginning(text: str, chars: int) -> str:
    """Return the first `chars` characters of a text without credentials.

    The text is masked before it is cut, so a credential at the cut is recognised too.
    """
    return mask_credentials(text[: 10 * chars])[:chars]


def mask_error(error: E) -> E:
    """Mask the credentials in the message and the notes of an error and of its causes, and return the error.

    The error is changed in place; it comes from another library.
    """
    present: BaseException | None = error
    seen: set[int] = set()
    while present is not None and id(present) not in seen:
        seen.add(id(present))
        present.args = tuple(mask_credentials(each) if isinstance(each, str) else each for each in present.args)
        if notes := getattr(present, "__notes__", None):
            present.__notes__ = [mask_credentials(each) for each in notes]
        present = present.__cause__ or present.__context__
    return error


def spellings(secret: str) -> frozenset[str]:
    """Return the forms in which clients, drivers and formats write `secret`: escaped for addresses, for JSON, and by
    `repr`.
    """
    plain = {secret, unquote(secret), unquote_plus(secret)}
    found = set(plain)
    for each in plain:
        found |= {
            quote(each, safe="", errors="replace"),
            quote(each, errors="replace"),
            quote_plus(each, errors="replace"),
        }
        found |= {json.dumps(each)[1:-1], json.dumps(each, ensure_ascii=False)[1:-1], repr(each)[1:-1]}
    return frozenset(found)


def _pattern_of(forms: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True)))
