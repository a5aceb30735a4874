"""Checks ids that callers send: their length, their characters, and that they are not reserved. Pure."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from jacquard.core.errors import ConfigError
from mnemosyne.schema.memory import is_profile_session

MOST_CHARS = 255
"""Maximum characters of an id."""

MOST_BYTES = 1_200
"""Maximum bytes of any id. Ids that are composed of others (`TURN.u`) may have more than MOST_CHARS characters, but not
more bytes than this. PostgreSQL indexes at most 2,700 bytes.
"""

_ID_NAMES = re.compile(
    r"id|.*_(?:id|ids|key)|branch|turn|after|viewers?|author|depends_on|derived_from|superseded_by", re.ASCII
)
"""Names of parameters and fields that contain ids."""

_MADE_NAMES = re.compile(
    r"id|(?:.*_)?(?:evidence|message|memory|entry|edit|proposal|source|tool_call)_ids?|derived_from|superseded_by",
    re.ASCII,
)
"""Names of ids that may be composed of others."""

_MESSAGES = frozenset({"message", "messages", "tail"})
"""Fields that contain messages of a chat API. Only such mappings are searched for ids; any other mapping is the caller's
own data.
"""

_MESSAGE_LEVELS = 2
"""Ids are in a message, and in its tool calls, references and author."""

_NO_IDS = frozenset({"content", "extra", "function", "arguments"})
"""Parts of chat messages that contain no ids."""

_JOINERS = frozenset("\u200c\u200d")
"""Format characters that words and emoji of some scripts need."""


def check_ids(given: Any) -> None:
    """Check all ids in query parameters, a request body or a document. Raises ConfigError for the first invalid id."""
    for name, text, is_required in _find_ids(given, levels=1):
        check_id(name, text, is_required=is_required)


def check_id(name: str, text: str, *, is_required: bool = True) -> None:
    """Check one id; `name` is the name of its field. An empty text is valid only if `is_required` is false.

    Raises ConfigError if the id is empty although it is required, is too long, has a control character, or is reserved
    for the facts about a user.
    """
    if (fault := _find_fault(name, text, is_required)) is not None:
        raise ConfigError(f"{name} {fault}")
    if name.endswith("session_id") and is_profile_session(text):
        raise ConfigError(f"{name} is reserved for the facts about a user; choose another.")


def shorten_id(text: str) -> str:
    """Return `text` if it can be part of an id. Otherwise return a digest of `text`."""
    if len(text) <= MOST_CHARS and not any(map(_is_wrong, text)):
        return text
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _find_fault(name: str, text: str, is_required: bool) -> str | None:
    if not text.strip() and (text or is_required):
        return "is empty; give a text."
    if len(text) > MOST_CHARS and not _MADE_NAMES.fullmatch(name):
        return f"has {len(text):,} characters; an id has at most {MOST_CHARS}."
    if len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        return f"has more than {MOST_BYTES:,} bytes."
    if text.isascii() and text.isprintable():
        return None
    wrong = next((each for each in text if _is_wrong(each)), None)
    return None if wrong is None else f"has the character U+{ord(wrong):04X}; an id has none of control or format."


def _is_wrong(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") and char not in _JOINERS


def _find_ids(
    given: Any, name: str = "", *, is_required: bool = True, levels: int = 0
) -> Iterator[tuple[str, str, bool]]:
    """Yield name and text of each id, and whether it is required. Mappings are entered `levels` deep."""
    if isinstance(given, str):
        if _ID_NAMES.fullmatch(name):
            yield name, given, is_required
    elif is_dataclass(given):
        for each in fields(given):
            needed, below = each.default is MISSING, _MESSAGE_LEVELS if each.name in _MESSAGES else 0
            yield from _find_ids(getattr(given, each.name), each.name, is_required=needed, levels=below)
    elif isinstance(given, list | tuple):
        for item in given:
            if not isinstance(item, list):
                yield from _find_ids(item, name, levels=levels)
    elif isinstance(given, Mapping) and levels:
        for key, value in given.items():
            if key not in _NO_IDS:
                yield from _find_ids(value, key, is_required=False, levels=levels - 1)
