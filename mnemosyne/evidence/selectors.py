r"""Reads selectors, which name a part of an evidence item's text, and extracts that part.

    lines:12-18        lines 12 to 18, counted from 1, both included; `lines:12` is one line
    chars:120-260      characters 120 up to, not including, 260, counted from 0
    json:$.items[0]    the values that an RFC 9535 JSONPath selects in JSON content
    regex:def\s+\w+    everything that a regular expression matches
    lines:1-9,regex:x  the parts of the content that every selector covers

A comma ends a selector only if the name of another selector and a colon follow (`,lines:` `,chars:` `,json:`
`,regex:`, blanks allowed after the comma). So `regex:a{1,3}` and `json:$[0,1]` are one selector each. A pattern that
must contain such a text writes its comma as `[,]` (regex) or `\u002c` (a name in JSONPath).

Each selector gives spans of characters, in order and without overlaps. Several selectors joined by commas give only the
characters that all of them cover, so their order does not matter. The span of a JSON text value is the characters between its
quotation marks. A complete JSON text is shown decoded. A part of a JSON text is shown as written in the source. Several spans
are shown as separate lines. A selector that selects nothing is an error. Only a blank line and an empty JSON text give an empty
extract.

A ref is a reference to an evidence item, with an optional selector and the hash of the text to which it pointed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from mnemosyne.core.errors import PatternError, SelectorResolveError
from mnemosyne.core.regexes import Span, compile_pattern, find_spans
from mnemosyne.host_parts import HashText, digest_of, hash_with_sha256, is_digest
from mnemosyne.protocols import TextSelector
from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.session import Ref
from mnemosyne.values import dataclass

MAX_SELECTORS = 16
_RANGE = re.compile(r"([0-9]{1,12})-([0-9]{1,12})")
_LINE = re.compile(r"[0-9]{1,12}")
_BREAK = re.compile(r"\r\n|\n|\r")


class SelectorType(StrEnum):
    """Kind of a selector: lines, characters, JSONPath or regular expression."""

    LINES = "lines"
    CHARS = "chars"
    JSON = "json"
    REGEX = "regex"


_SEPARATOR = re.compile(r",[ \t]*(?=(?:lines|chars|json|regex):)")


class RefState(StrEnum):
    """State of a ref: its text is unchanged, has changed since the ref was made, or does not exist."""

    FRESH = "fresh"
    CHANGED = "changed"
    MISSING = "missing"


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedSelector:
    """One selector. `source` is its text.

    `params` has `from` and `to` for lines and chars, `path` for json, and `pattern` for regex.
    """

    type: SelectorType
    params: Mapping[str, Any]
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Extract:
    """Selected text. `spans` are the pairs (begin, end) of the selected characters in the content, in order.

    The character at `end` is not selected.
    """

    text: str
    spans: tuple[Span, ...]


def parse_selector(text: str) -> tuple[ParsedSelector, ...]:
    """Return the selectors in `text`, in order.

    Raises SelectorResolveError if a selector is malformed. The error suggests a correction.
    """
    parts = _split_selectors(text)
    if len(parts) > MAX_SELECTORS:
        raise SelectorResolveError(_quote_text(text), f"it joins more than {MAX_SELECTORS} selectors; write fewer")
    return tuple(_parse_one(part) for part in parts)


def extract(content: str, selector: str) -> Extract:
    """Return the part of `content` at which `selector` (or several selectors, joined by commas) points.

    Raises:
        SelectorResolveError: if a selector is malformed or selects nothing.
    """
    parsed = parse_selector(selector)
    decoded: dict[Span, str] = {}
    spans = _find_spans(content, parsed[0], decoded)
    for each in parsed[1:]:
        spans = intersect(spans, _find_spans(content, each, decoded))
        if not spans:
            raise SelectorResolveError(_quote_text(selector), "its parts have nothing in common; drop one of them")
    pieces = [decoded[span] if span in decoded else content[span[0] : span[1]] for span in spans]
    return Extract(text="\n".join(pieces), spans=spans)


class RefSelector:
    """The built-in `TextSelector`: `parse_selector` and `extract` as one object."""

    def parse(self, selector: str) -> list[ParsedSelector]:
        """Return the selectors in the text `selector`, in order. Raises SelectorResolveError if one is malformed."""
        return list(parse_selector(selector))

    def extract(self, content: str, selector: str) -> str:
        """Return the part of `content` at which `selector` points.

        Raises SelectorResolveError if `selector` is malformed or selects nothing.
        """
        return extract(content, selector).text


def intersect(left: Sequence[Span], right: Sequence[Span]) -> tuple[Span, ...]:
    """Return the overlaps of two ordered sequences of disjoint spans, in order. Empty overlaps are left out."""
    found: list[Span] = []
    at_left = at_right = 0
    while at_left < len(left) and at_right < len(right):
        begin = max(left[at_left][0], right[at_right][0])
        end = min(left[at_left][1], right[at_right][1])
        if begin < end:
            found.append((begin, end))
        if left[at_left][1] <= right[at_right][1]:
            at_left += 1
        else:
            at_right += 1
    return tuple(found)


def ref_hash(text: str | Extract, hash_text: HashText = hash_with_sha256) -> str:
    """Return the hash of `text`, an extract or a whole text, by the function `hash_text`."""
    return digest_of(text.text if isinstance(text, Extract) else text, hash_text)


def make_ref(
    evidence: Evidence,
    selector: str | None = None,
    *,
    hash_text: HashText = hash_with_sha256,
    text_selector: TextSelector | None = None,
) -> Ref:
    """Return a ref to `evidence` or, if `selector` is not None, to the part at `selector`. The ref has the hash of the present
    text.

    `hash_text` and `text_selector` replace the built-in functions. Raises SelectorResolveError if the selector is malformed or
    selects nothing.
    """
    chosen = text_selector or RefSelector()
    pointed = evidence.content if selector is None else chosen.extract(evidence.content, selector)
    return Ref(evidence_id=evidence.evidence_id, selector=selector, hash=digest_of(pointed, hash_text))


def check_ref(ref: Ref, evidence: Evidence | None, hash_text: HashText = hash_with_sha256) -> RefState:
    """Return whether `ref` still leads to the text for which it was made.

    The result is MISSING if `evidence` is None or not the item of the ref, or if the ref's selector selects nothing. A ref
    without a hash is FRESH if it leads to any text. The hash in the ref may come from `hash_text` (a function of the host) or
    from the default function.
    """
    if evidence is None or evidence.evidence_id != ref.evidence_id:
        return RefState.MISSING
    try:
        pointed = evidence.content if ref.selector is None else extract(evidence.content, ref.selector).text
    except SelectorResolveError:
        return RefState.MISSING
    return RefState.FRESH if ref.hash is None or is_digest(ref.hash, pointed, hash_text) else RefState.CHANGED


def _split_selectors(text: str) -> list[str]:
    parts, begin = [], 0
    for separator in _SEPARATOR.finditer(text):
        parts.append(text[begin : separator.start()])
        begin = separator.end()
    return [*parts, text[begin:]]


def _parse_one(source: str) -> ParsedSelector:
    name, colon, argument = source.partition(":")
    try:
        kind = SelectorType(name if colon else "")
    except ValueError:
        wanted = "begin with lines:, chars:, json: or regex:, as in lines:12-18"
        raise SelectorResolveError(_quote_text(source), f"it has no known kind; {wanted}") from None
    if kind is SelectorType.LINES or kind is SelectorType.CHARS:
        return ParsedSelector(type=kind, params=_parse_range(kind, argument, source), source=source)
    if not argument:
        raise SelectorResolveError(source, "nothing follows the colon; write what to look for")
    try:
        if kind is SelectorType.JSON:
            from mnemosyne.core.jsonpath import compile_path

            compile_path(argument)
            return ParsedSelector(type=kind, params={"path": argument}, source=source)
        compile_pattern(argument)
        return ParsedSelector(type=kind, params={"pattern": argument}, source=source)
    except PatternError as error:
        raise SelectorResolveError(_quote_text(source), error.reason) from None


def _parse_range(kind: SelectorType, argument: str, source: str) -> dict[str, int]:
    numbers = _RANGE.fullmatch(argument.strip())
    if numbers is not None:
        first, last = int(numbers[1]), int(numbers[2])
    elif kind is SelectorType.LINES and _LINE.fullmatch(argument.strip()):
        first = last = int(argument)
    else:
        raise SelectorResolveError(_quote_text(source), f"two whole numbers must follow, as in {kind.value}:12-18")
    if kind is SelectorType.LINES and first < 1:
        raise SelectorResolveError(_quote_text(source), "lines are counted from 1")
    if last < first or (kind is SelectorType.CHARS and last == first):
        least = "at least" if kind is SelectorType.LINES else "more than"
        raise SelectorResolveError(
            _quote_text(source), f"it selects nothing; the second number must be {least} the first"
        )
    return {"from": first, "to": last}


def _find_spans(content: str, selector: ParsedSelector, decoded: dict[Span, str]) -> tuple[Span, ...]:
    """Return the spans of one selector; a whole JSON text value is recorded, decoded, in `decoded`."""
    source, params = _quote_text(selector.source), selector.params
    if selector.type is SelectorType.LINES:
        return (_line_span(content, params["from"], params["to"], source),)
    if selector.type is SelectorType.CHARS:
        if params["to"] > len(content):
            size = f"the content has {len(content)} characters"
            raise SelectorResolveError(source, f"{size}; give a range from 0 up to that")
        return ((params["from"], params["to"]),)
    try:
        if selector.type is SelectorType.REGEX:
            found = find_spans(params["pattern"], content)
            wanted = "the pattern matches nothing in the content; correct the pattern, or check whether the source has changed"
        else:
            found = _json_spans(content, params["path"], decoded)
            wanted = (
                "the path selects nothing in the content; correct the path, or check whether the source has changed"
            )
    except PatternError as error:
        raise SelectorResolveError(source, error.reason) from None
    if not found:
        raise SelectorResolveError(source, wanted)
    return found


def _line_span(content: str, first: int, last: int, source: str) -> Span:
    starts, ends = [0], []
    for found in _BREAK.finditer(content):
        ends.append(found.start())
        starts.append(found.end())
    if starts[-1] < len(content) or not ends:
        ends.append(len(content))
    if not content or last > len(ends):
        count = f"the content has {len(ends) if content else 0} lines"
        raise SelectorResolveError(source, f"{count}; give a range from 1 up to that")
    return starts[first - 1], ends[last - 1]


def _json_spans(content: str, path: str, decoded: dict[Span, str]) -> tuple[Span, ...]:
    from mnemosyne.core.jsonpath import find_nodes

    spans: list[Span] = []
    for node in find_nodes(content, path):
        if spans and node.span[0] < spans[-1][1]:
            # A value inside another that is selected already.
            continue
        spans.append(node.span)
        if isinstance(node.value, str):
            decoded[node.span] = node.value
    return tuple(spans)


def _quote_text(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:119]}…"
