"""Finds the values that a JSONPath (RFC 9535) selects in a JSON text, and the place of each value in the text.

Size and time are limited, because a path of a few characters can require unbounded work (`$..*..*..*`). No library
reports the place of a value in the text, so the module walks over the text itself. Only this file imports `jsonpath`.
The module may import only errors and `regexes` from mnemosyne.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from json.decoder import scanstring  # type: ignore[attr-defined]
from time import perf_counter
from typing import Any

from jsonpath import CompoundJSONPath, JSONPath, JSONPathEnvironment, JSONPathMatch
from jsonpath.exceptions import JSONPathError
from jsonpath.filter import BaseExpression, FilterQuery
from jsonpath.function_extensions import ExpressionType, FilterFunction
from jsonpath.segments import JSONPathRecursiveDescentSegment, JSONPathSegment
from jsonpath.selectors import Filter

from mnemosyne.core.errors import PatternError
from mnemosyne.core.regexes import SECONDS, Span, matches
from mnemosyne.values import dataclass

MAX_PATH_CHARS = 2_000
MAX_NODES = 10_000
MAX_JSON_CHARS = 4_000_000

Steps = tuple[str | int, ...]
_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, kw_only=True, slots=True)
class JsonNode:
    """One value that a path selects, with its place."""

    steps: Steps
    """The keys and list numbers from the root to the value."""
    span: Span
    """(begin, end) of the value in the JSON text. The span of a text value excludes its quotation marks."""
    value: Any


class _OutOfTimeError(Exception):
    pass


class _TimedMatch(JSONPathMatch):
    """A match that checks the time limit whenever the search passes through it."""

    __slots__ = ()

    def filter_context(self) -> Mapping[str, Any]:
        if perf_counter() > self._filter_context["until"]:
            raise _OutOfTimeError
        return self._filter_context


class _BoundedRegex(FilterFunction):
    """`match` and `search` of RFC 9535 by the bounded engine; an invalid pattern matches nothing, as the RFC requires."""

    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]  # noqa: RUF012 - the library's own form
    return_type = ExpressionType.LOGICAL

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole

    def __call__(self, value: object, pattern: object) -> bool:
        if not isinstance(value, str) or not isinstance(pattern, str):
            return False
        try:
            return matches(pattern, value, whole=self._whole, seconds=SECONDS / 10)
        except PatternError:
            return False


class _Environment(JSONPathEnvironment):
    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        self.function_extensions["match"] = _BoundedRegex(whole=True)
        self.function_extensions["search"] = _BoundedRegex(whole=False)


_ENVIRONMENT = _Environment(strict=True)


@lru_cache(maxsize=256)
def compile_path(path: str) -> JSONPath:
    """Return the compiled form of a JSONPath.

    Raises PatternError if the path is invalid or would need too much work. A query inside a filter may neither search
    at any depth (`..`) nor contain a filter.
    """
    if len(path) > MAX_PATH_CHARS:
        raise PatternError(path, f"it has more than {MAX_PATH_CHARS:,} characters; write a shorter one")
    try:
        compiled = _ENVIRONMENT.compile(path)
    except JSONPathError as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PatternError(path, f"it is not a JSONPath of RFC 9535 ({reason}); as in $.items[0].name") from None
    except Exception as error:
        # A third-party parser on untrusted input: any of its errors means that the path cannot be used.
        raise PatternError(path, f"it is not a usable JSONPath ({type(error).__name__})") from None
    if isinstance(compiled, CompoundJSONPath):
        raise PatternError(path, "it joins several paths; give one")
    for query in _filter_queries(compiled.segments):
        if any(isinstance(segment, JSONPathRecursiveDescentSegment) for segment in query.path.segments):
            raise PatternError(path, "a filter in it searches at any depth (..); name the levels")
        if query.children():
            raise PatternError(path, "a filter in it holds another filter; write one filter")
    return compiled


def find_nodes(text: str, path: str, *, seconds: float = SECONDS) -> tuple[JsonNode, ...]:
    """Return the values that a path selects in a JSON text, in the order of the text.

    A value that is selected twice is returned once. If an object has several members of one name, the last one counts,
    as in `json.loads`.

    Raises PatternError if the path is invalid, the text is not JSON, more than MAX_NODES values are selected, or the
    search takes longer than `seconds`.
    """
    compiled = compile_path(path)
    document = load_json(text, path)
    root = _TimedMatch(
        filter_context={"until": perf_counter() + seconds},
        obj=document,
        parent=None,
        path="$",
        parts=(),
        root=document,
    )
    nodes: Iterable[JSONPathMatch] = [root]
    for segment in compiled.segments:
        nodes = segment.resolve(nodes)
    found: dict[Steps, Any] = {}
    try:
        for node in nodes:
            found[node.parts] = node.obj
            if len(found) > MAX_NODES:
                raise PatternError(path, f"it selects more than {MAX_NODES:,} values; write a narrower one")
    except _OutOfTimeError:
        raise PatternError(path, f"it ran for more than {seconds:g} s; write a narrower one") from None
    except JSONPathError as error:
        raise PatternError(path, f"it cannot be followed ({str(error).splitlines()[0]})") from None
    return _place_matches(text, found, path)


def load_json(text: str, path: str) -> Any:
    """Return the value of the JSON text `text`.

    Raises PatternError (which names `path`) if the text is not JSON, is too long, or is nested too deep.
    """
    if len(text) > MAX_JSON_CHARS:
        raise PatternError(
            path, f"the content has more than {MAX_JSON_CHARS:,} characters; point into it by lines or chars"
        )
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise PatternError(
            path, f"the content is not JSON ({error.msg} at {where}); use lines, chars or regex"
        ) from None
    except (ValueError, RecursionError) as error:
        raise PatternError(path, f"the content is JSON that cannot be read ({type(error).__name__})") from None


def _filter_queries(segments: Sequence[JSONPathSegment]) -> list[FilterQuery]:
    waiting: list[BaseExpression] = [
        selector.expression for segment in segments for selector in segment.selectors if isinstance(selector, Filter)
    ]
    queries: list[FilterQuery] = []
    while waiting:
        expression = waiting.pop()
        if isinstance(expression, FilterQuery):
            queries.append(expression)
        waiting.extend(expression.children())
    return queries


def _place_matches(text: str, found: Mapping[Steps, Any], path: str) -> tuple[JsonNode, ...]:
    wanted: dict[str | int, Any] = {}
    for steps in found:
        branch = wanted
        for step in steps:
            branch = branch.setdefault(step, {})
    spans: dict[Steps, Span] = {}
    try:
        _walk_value(text, _skip_space(text, 0), wanted, (), set(found), spans)
    except RecursionError:
        raise PatternError(path, "the content is JSON that is nested too deep") from None
    # The library also slices strings; a character of one is not a value of the text.
    placed = [JsonNode(steps=steps, span=spans[steps], value=value) for steps, value in found.items() if steps in spans]
    return tuple(sorted(placed, key=lambda node: (node.span[0], -node.span[1], len(node.steps))))


def _skip_space(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return at if blank is None else blank.end()


def _walk_value(
    text: str, at: int, wanted: Mapping[str | int, Any], steps: Steps, targets: set[Steps], spans: dict[Steps, Span]
) -> int:
    """Record the spans of targets in the value that begins at `at` (the text is known to be JSON); return its end."""
    if not wanted or text[at] not in "{[":
        end: int = _DECODER.raw_decode(text, at)[1]
    elif text[at] == "{":
        end = _walk_object(text, at, wanted, steps, targets, spans)
    else:
        end = _walk_array(text, at, wanted, steps, targets, spans)
    if steps in targets:
        spans[steps] = (at + 1, end - 1) if text[at] == '"' else (at, end)
    return end


def _walk_object(
    text: str, at: int, wanted: Mapping[str | int, Any], steps: Steps, targets: set[Steps], spans: dict[Steps, Span]
) -> int:
    at = _skip_space(text, at + 1)
    while text[at] != "}":
        key, at = scanstring(text, at + 1, True)
        at = _skip_space(text, _skip_space(text, at) + 1)
        at = _skip_space(text, _walk_value(text, at, wanted.get(key, {}), (*steps, key), targets, spans))
        if text[at] == ",":
            at = _skip_space(text, at + 1)
    return at + 1


def _walk_array(
    text: str, at: int, wanted: Mapping[str | int, Any], steps: Steps, targets: set[Steps], spans: dict[Steps, Span]
) -> int:
    at, place = _skip_space(text, at + 1), 0
    while text[at] != "]":
        at = _skip_space(text, _walk_value(text, at, wanted.get(place, {}), (*steps, place), targets, spans))
        if text[at] == ",":
            at = _skip_space(text, at + 1)
        place += 1
    return at + 1
