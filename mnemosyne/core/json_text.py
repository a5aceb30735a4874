"""Reads JSON text of files strictly, with the place of a fault, and writes JSON text that can be read again.

`parse_json` is stricter than most JSON readers: a duplicate key, NaN and Infinity are refused, because readers disagree
on them. It imports nothing of mnemosyne but errors.
"""

from __future__ import annotations

import json
from typing import Any

from mnemosyne.core.errors import CodecError


def parse_json(data: bytes, name: str) -> Any:
    """Return the value of JSON in `data`; CodecError has the sentence `name:line:column: fault`."""
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
    """Return the object or list that a text consists of, or None for any other text; it need not be strict JSON."""
    if not content.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def json_text(value: Any) -> bytes:
    """Return a JSON value as indented UTF-8 text that ends with a line break; half a surrogate pair is written as an
    escape.
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
