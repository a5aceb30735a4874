"""Finds the end of JSON in an arriving reply, reads the value of the JSON, and repairs broken JSON.

Only this file imports json_repair.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from json import JSONDecoder
from typing import Any

from filament.errors import OpError
from filament.markup import unescape
from filament.reply.brackets import ends_between_ops, measure_depth
from filament.state.changes.ops import Op, parse_op
from filament.state.verdicts import OpVerdict, Refusal, build_refusal

REPAIR_CHARS = 2000
"""Maximum number of characters of broken JSON to repair in one reply, because json_repair's time grows faster than the text."""
_REPAIR_DEPTH = 32
_DECODER = JSONDecoder(strict=False)
_BLANKS = re.compile(r"[ \t\n\r]*")
_IN_STRING = re.compile(r'[^"\\]*')
_BARE = re.compile(r"[-+.0-9A-Za-z]*")
_OPENING = {"[": "]", "{": "}"}


class _Next(Enum):
    """Tokens that may follow at the present place of JSON."""

    VALUE = auto()
    VALUE_OR_END = auto()
    KEY = auto()
    KEY_OR_END = auto()
    COLON = auto()
    COMMA_OR_END = auto()
    BARE = auto()


_VALUES, _KEYS = (_Next.VALUE, _Next.VALUE_OR_END), (_Next.KEY, _Next.KEY_OR_END)


class JsonScan:
    """Follows JSON that arrives in pieces, from its first bracket on, to find its end.

    `done` is true once all brackets are closed. `broken` is true as soon as the text cannot be JSON. `length` is the
    number of characters taken so far. Words without quotes are accepted, because the decoder checks later whether
    they are numbers, `true`, `false` or `null`.
    """

    def __init__(self) -> None:
        self.done = self.broken = False
        self.length = 0
        self._open: list[str] = []
        self._next = _Next.VALUE
        self._string: bool | None = None
        self._escaped = False

    def take(self, text: str) -> None:
        """Read `text` up to the end of the JSON. `length` grows by the number of characters that were read."""
        at = 0
        while at < len(text) and not self.done and not self.broken:
            at = self._in_string(text, at) if self._string is not None else self._scan_outside_string(text, at)
        self.length += at

    def _in_string(self, text: str, at: int) -> int:
        """Continue inside a string; `_string` says whether it is a key."""
        if self._escaped:
            self._escaped = False
            return at + 1
        match = _IN_STRING.match(text, at)
        end = match.end() if match else at
        if end == len(text):
            return end
        if text[end] == "\\":
            self._escaped = True
        else:
            self._next = _Next.COLON if self._string else _Next.COMMA_OR_END
            self._string = None
        return end + 1

    def _scan_outside_string(self, text: str, at: int) -> int:
        if self._next is _Next.BARE:
            match = _BARE.match(text, at)
            if match and match.end() > at:
                return match.end()
            self._next = _Next.COMMA_OR_END
        blank = _BLANKS.match(text, at)
        if blank and blank.end() > at:
            return blank.end()
        char, expected = text[at], self._next
        if char == '"' and self._open and expected in _VALUES + _KEYS:
            self._string = expected in _KEYS
        elif char in _OPENING and expected in _VALUES:
            self._open.append(_OPENING[char])
            self._next = _Next.VALUE_OR_END if char == "[" else _Next.KEY_OR_END
        elif self._open and char == self._open[-1] and expected not in (_Next.VALUE, _Next.KEY, _Next.COLON):
            self._open.pop()
            self._next, self.done = _Next.COMMA_OR_END, not self._open
        elif char == "," and expected is _Next.COMMA_OR_END:
            self._next = _Next.VALUE if self._open[-1] == "]" else _Next.KEY
        elif char == ":" and expected is _Next.COLON:
            self._next = _Next.VALUE
        elif self._open and expected in _VALUES and _BARE.fullmatch(char):
            self._next = _Next.BARE
        else:
            self.broken = True
            return at
        return at + 1


def decode_json(text: str) -> tuple[Any, bool]:
    """Return (value, True) if `text` is JSON, else (None, False)."""
    try:
        return _DECODER.decode(text), True
    except (ValueError, RecursionError):
        return None, False


def repair_json(body: str, *, cut: bool, repairable: int) -> tuple[Any, str, int]:
    """Return (value, fault, cost) for the broken JSON `body`. `cost` is the number of characters given to the repair.

    `fault` is '' if the JSON was only escaped, and 'repaired' if it was repaired. Any other `fault` is the reason why
    there is no value. If `cut`, the reply ends inside the JSON, so a half-written op is not completed by a guess.
    `repairable` is the maximum number of characters to repair.
    """
    body = body.strip().removesuffix("```").rstrip()
    if "&quot;" in body:
        body = unescape(body)
        value, fits = decode_json(body)
        if fits:
            return value, "", 0
    if cut and not ends_between_ops(body):
        return None, "the reply was cut off in the middle of an op", 0
    if len(body) > repairable or measure_depth(body) > _REPAIR_DEPTH:
        return None, "its JSON is broken and too long or too deep to repair", 0
    import json_repair

    try:
        value = json_repair.loads(body)
    except Exception:  # json_repair may fail in any way on broken input; the reply must still be parsed
        value = None
    if not isinstance(value, dict | list) or not value:
        return None, "its JSON cannot be read", len(body)
    return value, "repaired", len(body)


def read_ops(value: Any, first: int) -> tuple[tuple[Op, ...], tuple[OpVerdict, ...], str]:
    """Return (ops, lost, fault) for `value`, the JSON value of a block of ops.

    If all ops can be read, `ops` are numbered from `first`, `lost` is empty, and `fault` is ''. If one op is malformed, `ops`
    is empty, `lost` has a verdict on each op, and `fault` is the reason as a sentence without a full stop. If the ops cannot be
    separated, `ops` and `lost` are empty.
    """
    raw = value.get("ops") if isinstance(value, dict) and "op" not in value else value
    if isinstance(raw, dict) or (isinstance(raw, list) and raw and isinstance(raw[0], str)):
        raw = [raw]
    if not isinstance(raw, list):
        return (), (), 'it has no list of ops. Write {"ops": [...]}'
    ops: list[Op] = []
    bad: dict[int, OpError] = {}
    for number, item in enumerate(raw, start=first):
        try:
            ops.append(parse_op(unescape_strings(item), number))
        except OpError as error:
            bad[number] = error
        except RecursionError:
            return (), (), "it is nested too deep"
    if not bad:
        return tuple(ops), (), ""
    reason = f"it has no fault of its own, but op {min(bad)} of its block is malformed"
    lost = [build_refusal(op.number, str(op), Refusal.TURN_REFUSED, reason) for op in ops]
    lost += [build_refusal(number, error.op, Refusal.MALFORMED, error.reason) for number, error in bad.items()]
    return (), tuple(sorted(lost, key=lambda verdict: verdict.number)), str(bad[min(bad)])


def unescape_strings(value: Any) -> Any:
    """Return `value` with every string unescaped, because models copy the escaping from their prompt."""
    if isinstance(value, str):
        return unescape(value)
    if isinstance(value, list):
        return [unescape_strings(item) for item in value]
    if isinstance(value, dict):
        return {unescape_strings(key): unescape_strings(item) for key, item in value.items()}
    return value
