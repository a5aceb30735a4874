r"""Writes values as YAML bodies of a prompt, and reads the YAML that authors write. Only this file imports yaml.

The emitter is our own, because PyYAML's C dumper writes emoji as `\U0001F600`, folds long lines and quotes
unpredictably. Our output has the same meaning in YAML 1.1 and 1.2, because a text is quoted if either version could take
it for another type.

The reader follows YAML 1.2's core schema, so that an author gets the value as typed: `yes`, `on`, `12:30` and
`2020-01-01` are texts, `true` and `1e3` are not. The reader uses only the events of the C parser. The C parser's node
tree is not used, because a deeply nested text would overflow the stack and end the process. Tags, anchors, aliases, second
documents, and duplicate or non-text keys are refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

from filament.errors import PayloadError
from filament.markup import NONCHARACTERS, clean_surrogates

MAX_DEPTH = 100
_SIMPLE_KEY_CHARS = 1000

_ESCAPED = re.compile(f'["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff{NONCHARACTERS}]')
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_NOT_PLAIN = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff{NONCHARACTERS}]|: | #|:$")
_NOT_PLAIN_IN_FLOW = re.compile(r"[:,\[\]{}]")
_NOT_LITERAL = re.compile(
    f"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff{NONCHARACTERS}]|[ \u00a0\u3000]\n|[ \u00a0\u3000]$"
)
_INDICATORS = frozenset("-?:,[]{}#&*!|>'\"%@`=<~.+ ")
_NUMBER_LIKE = re.compile(r"[0-9][0-9a-fA-FxXoO_.:eE+\-tTzZ ]*", re.ASCII)
_WORDS = frozenset(["null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf"])


def dump_yaml(value: Any, indent: int = 0) -> str:
    """Return `value` as block YAML without a trailing newline, each line indented by `indent` spaces.

    Legal values are mappings with text keys (their order is kept), lists, tuples, text, numbers, booleans and None.
    Emoji and Chinese stay literal, and no line is folded. A text of several lines becomes a `|-` block if the block
    reads back exactly, otherwise one quoted line. Lone surrogates become U+FFFD. The result is not escaped for
    markup; `render_body` escapes it.

    Raises:
        PayloadError: if a value cannot be written. The message names the place of the value.
    """
    out: list[str] = []
    pad = " " * indent
    _emit(out, value, pad, pad, ())
    return "\n".join(out)


def scalar(value: str | int | float | bool | None) -> str:
    """Return `value` as one line of YAML that is safe in block and in flow context, without quotes if possible.

    Raises PayloadError if `value` is not text, a number, a boolean or None.
    """
    return _scalar(value, (), flow=True)


def _emit(out: list[str], value: Any, pad: str, lead: str, path: tuple[str | int, ...]) -> None:
    """Append the lines of a value; `lead` opens its first line, `pad` is the indent of those that follow."""
    if len(path) > MAX_DEPTH:
        raise PayloadError(f"{_place(path[:5])}… is nested deeper than {MAX_DEPTH} levels. Flatten it.")
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            lead = _emit_entry(out, key, item, pad, lead, path)
    elif isinstance(value, list | tuple) and value:
        for place, item in enumerate(value):
            _emit(out, item, pad + "  ", f"{lead}- ", (*path, place))
            lead = pad
    elif isinstance(value, str) and "\n" in value and _is_literal(value):
        _emit_literal(out, value, pad or "  ", lead)
    else:
        out.append(lead + _inline(value, path))


def _emit_entry(out: list[str], key: Any, item: Any, pad: str, lead: str, path: tuple[str | int, ...]) -> str:
    """Append one `key: value` and return the lead of the entry after it."""
    if not isinstance(key, str):
        raise PayloadError(f"{_place(path)} has the key {key!r}, which is not text. Use text keys.")
    inner = (*path, str.__str__(key))
    shown = _quote_or_plain(key, flow=False)
    if len(shown) > _SIMPLE_KEY_CHARS:
        out.append(f"{lead}? {shown}")
        lead, shown = pad, ""
    if _is_block(item):
        out.append(f"{lead}{shown}:")
        _emit(out, item, pad + "  ", pad + "  ", inner)
    elif isinstance(item, str) and "\n" in item and _is_literal(item):
        _emit_literal(out, item, pad + "  ", f"{lead}{shown}: ")
    else:
        out.append(f"{lead}{shown}: {_inline(item, inner)}")
    return pad


def _emit_literal(out: list[str], text: str, pad: str, lead: str) -> None:
    out.append(f"{lead}|-")
    out.extend(pad + line if line else "" for line in text.split("\n"))


def _is_block(value: Any) -> bool:
    return bool(value) and isinstance(value, Mapping | list | tuple)


def _inline(value: Any, path: tuple[str | int, ...]) -> str:
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    return _scalar(value, path, flow=False)


def _scalar(value: Any, path: tuple[str | int, ...], *, flow: bool) -> str:
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, str):
        return _quote_or_plain(value, flow=flow)
    if isinstance(value, int):
        try:
            return int.__repr__(value)
        except ValueError as error:
            raise PayloadError(f"{_place(path)} is a number of too many digits. Keep it as text.") from error
    if isinstance(value, float):
        return number_text(value)
    raise PayloadError(
        f"{_place(path)} is a {type(value).__name__}. Give a mapping, a list, text, a number, a boolean or None."
    )


def number_text(value: float) -> str:
    """Return a float in YAML's spelling: `.inf`, `-.inf`, `.nan`, and a decimal point before every exponent."""
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    shown = float.__repr__(value)
    return shown.replace("e", ".0e") if "e" in shown and "." not in shown else shown


def _quote_or_plain(text: str, *, flow: bool) -> str:
    text = clean_surrogates(str.__str__(text))
    if _is_plain(text) and not (flow and _NOT_PLAIN_IN_FLOW.search(text)):
        return text
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _is_plain(text: str) -> bool:
    if not text or text[0] in _INDICATORS or text != text.strip() or _NOT_PLAIN.search(text):
        return False
    return text.lower() not in _WORDS and _NUMBER_LIKE.fullmatch(text) is None


def _is_literal(text: str) -> bool:
    """Return whether a `|-` block reproduces the text exactly: it needs a plain first line and no trailing spaces."""
    return (
        text[0] not in " \n" and text[-1] != "\n" and not _NOT_LITERAL.search(text) and clean_surrogates(text) == text
    )


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    code = ord(char)
    if char in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[char]
    if code < 0x100:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _place(path: tuple[str | int, ...]) -> str:
    shown = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return shown.removeprefix(".")[:200] or "The value"


# --- reading ---------------------------------------------------------------------------------------------------------

_STR_TAG, _TAG = "tag:yaml.org,2002:str", "tag:yaml.org,2002:"
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_SPECIAL = re.compile(r"([-+]?)\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII)

Lines = dict[tuple[str | int, ...], int]


def load_yaml(text: str) -> Any:
    """Return the value of a YAML document, or None for an empty one.

    Raises PayloadError, with the line, in the cases that `load_yaml_marked` lists.
    """
    return load_yaml_marked(text)[0]


def load_yaml_marked(text: str, *, as_text: Callable[[str], bool] | None = None) -> tuple[Any, Lines]:
    """Return (value, lines): the value of a YAML document, and the 1-based line of each of its parts.

    The keys of `lines` are paths from the root, made of text keys and 0-based list places; `()` is the root. The line
    of a mapping entry is the line of its key. The line of a list item is the line on which the item starts.

    Below each root key for which `as_text` returns true, every scalar is read as text, so `1.10` stays `1.10`. If `as_text` is
    None, there is no such key.

    Raises:
        PayloadError: with the line, for bad syntax, a duplicate or non-text key, an alias, a tag, a second document,
            or nesting deeper than 100.
    """
    lines: Lines = {}
    try:
        events = iter(yaml.parse(text, Loader=yaml.CSafeLoader))
        value = _document(events, lines, as_text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(part for part in (error.context, error.problem) if part)
        raise PayloadError(f"{reason}.", mark.line + 1 if mark else None) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1 if isinstance(error.position, int) else None
        raise PayloadError(
            f"the text holds a character that YAML forbids ({error.reason}). Remove it.", line
        ) from error
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise PayloadError("the text holds half of a surrogate pair. Save the file as UTF-8.", line) from error
    return value, lines


class _Open:
    """A mapping or list that is being read."""

    __slots__ = ("items", "key", "path")

    def __init__(self, items: dict[str, Any] | list[Any], path: tuple[str | int, ...]) -> None:
        self.items, self.path = items, path
        self.key: str | None = None


def _document(events: Iterator[yaml.Event], lines: Lines, as_text: Callable[[str], bool] | None) -> Any:
    stack: list[_Open] = []
    root: Any = None
    documents = 0
    for event in events:
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise PayloadError("a second document starts here. Keep one document per text.", line)
        elif isinstance(event, yaml.AliasEvent):
            raise PayloadError(f"the alias *{event.anchor} is not supported. Write the value out.", line)
        elif isinstance(event, yaml.ScalarEvent | yaml.MappingStartEvent | yaml.SequenceStartEvent):
            value: Any = _value(event, line)
            if as_text is not None and isinstance(event, yaml.ScalarEvent) and _is_below(as_text, stack, value):
                value = event.value
            path = _attach(stack, event, value, line, lines)
            if not stack and path == ():
                root = value
            if isinstance(value, dict | list):
                stack.append(_Open(value, path))
            if len(stack) > MAX_DEPTH:
                raise PayloadError(f"nested deeper than {MAX_DEPTH} levels. Flatten it.", line)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            stack.pop()
    return root


def _is_below(as_text: Callable[[str], bool], stack: list[_Open], value: Any) -> bool:
    """Return whether a scalar belongs to a root key for which `as_text` is true; a root key without a value stays null."""
    key = stack[1].path[0] if len(stack) > 1 else stack[0].key if stack and value is not None else None
    return isinstance(key, str) and as_text(key)


def _attach(stack: list[_Open], event: yaml.Event, value: Any, line: int, lines: Lines) -> tuple[str | int, ...]:
    """Add a value to the innermost open collection and return its path; a mapping key is kept until its value arrives."""
    if not stack:
        lines[()] = line
        return ()
    parent = stack[-1]
    if isinstance(parent.items, list):
        path: tuple[str | int, ...] = (*parent.path, len(parent.items))
        parent.items.append(value)
        lines[path] = line
        return path
    if parent.key is None:
        if not isinstance(value, str):
            shown = event.value if isinstance(event, yaml.ScalarEvent) else "a mapping or list"
            raise PayloadError(f"the key {shown} is not text. Put it in quotes.", line)
        if value in parent.items:
            raise PayloadError(f"the key {value!r} is here a second time. Rename or remove one.", line)
        parent.key = value
        path = (*parent.path, value)
        lines[path] = line
        return path
    key, parent.key = parent.key, None
    parent.items[key] = value
    return (*parent.path, key)


def _value(event: yaml.Event, line: int) -> Any:
    if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
        tag = event.tag
        if tag not in (None, "!", f"{_TAG}map", f"{_TAG}seq"):
            raise PayloadError(f"the tag {tag} is not supported. Remove it.", line)
        return {} if isinstance(event, yaml.MappingStartEvent) else []
    if not isinstance(event, yaml.ScalarEvent):
        return None
    tag = event.tag
    if tag == _STR_TAG or (tag in (None, "!") and not event.implicit[0]):
        return event.value
    if tag is not None:
        raise PayloadError(f"the tag {tag} is not supported. Remove it.", line)
    return _resolve(event.value, line)


def _resolve(text: str, line: int) -> Any:
    """Return the value of an unquoted scalar by the core schema of YAML 1.2."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        try:
            return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        except ValueError as error:
            raise PayloadError("a number of too many digits. Put it in quotes.", line) from error
    if _FLOAT.fullmatch(text):
        return float(text)
    if (special := _SPECIAL.fullmatch(text)) is not None:
        return math.nan if text.lower() == ".nan" else -math.inf if special.group(1) == "-" else math.inf
    return text
