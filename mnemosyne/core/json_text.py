"""Reads JSON texts strictly, with the place of each fault, and writes JSON texts for files.

`parse_json` is stricter than most JSON readers: it refuses a duplicate key, NaN and Infinity, because readers disagree
on their meaning. The module imports only errors from mnemosyne.
"""

from __future__ import annotations

import json
from typing import Any

from mnemosyne.core.errors import CodecError


def parse_json(data: bytes, name: str) -> Any:
    """Return the value of the JSON in `data`. `name` is the file's name for messages.

    Raises CodecError with the message `name:line:column: fault` if `data` is not strict JSON.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CodecError(f"{name}:{line}: byte {error.start} is not UTF-8; save the file as UTF-8.") from None
    try:
        return json.loads(text, object_pairs_hook=_build_object, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise CodecError(f"{name}:{error.lineno}:{error.colno}: {error.msg}.") from None
    except RecursionError:
        raise CodecError(f"{name}: is nested too deep to be read; flatten it.") from None
    except ValueError as error:
        raise CodecError(f"{name}: {error}.") from None


def read_json(content: str) -> Any:
    """Return the object or list that the JSON text `content` contains, or None for any other text.

    Unlike `parse_json`, it accepts duplicate keys, NaN and Infinity.
    """
    if not content.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def json_text(value: Any) -> bytes:
    """Return a JSON value as indented UTF-8 text that ends with a line break. Raises ValueError for NaN and infinities.

    If a text contains half a surrogate pair, the whole result is written in ASCII with escapes.
    """
    text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    try:
        return f"{text}\n".encode()
    except UnicodeEncodeError:
        return f"{json.dumps(value, indent=2, allow_nan=False)}\n".encode("ascii")


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"an object holds the key {json.dumps(key)} twice; keep one of them")
            seen.add(key)
    return made


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON; write a number or null")
