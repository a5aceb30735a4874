"""Converts values for all mappers: message contents to text, results to text or JSON, errors to a status."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from jacquard.integrations.core.values import FoundDocument
from mnemosyne import ProviderKind, ToolCallStatus, ToolProvider

_STATUS: tuple[tuple[tuple[type[BaseException], ...], ToolCallStatus], ...] = (
    ((TimeoutError, asyncio.TimeoutError), ToolCallStatus.TIMEOUT),
    ((PermissionError,), ToolCallStatus.FORBIDDEN),
    ((FileNotFoundError,), ToolCallStatus.NOT_FOUND),
)
_NAMELESS_MODULES = frozenset({"", "__main__", "builtins", "functools"})
_TEXT_KEYS = ("text", "page_content", "content")
_VALUE = "value"
"""Text of a `TextSearchResult` of Semantic Kernel. In other metadata it may be anything."""


def read_text(content: Any) -> str:
    """Return the text of `content`, the content of a message. It is a string or a list of parts.

    Parts without text (images, audio) are left out. If no part has text, each part is shown by its kind in brackets,
    such as `[image]`.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = list(content) if isinstance(content, Sequence) else [content]
    texts = [text for part in parts if (text := _part_text(part))]
    return "\n".join(texts) if texts else " ".join(f"[{_part_kind(part)}]" for part in parts)


def is_text_part(part: Any) -> bool:
    """Return whether a part of a message's content has text."""
    return bool(_part_text(part))


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, Mapping) else getattr(part, "text", None)
    return text if isinstance(text, str) else ""


def _part_kind(part: Any) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else getattr(part, "type", None)
    return kind if isinstance(kind, str) and kind else type(part).__name__


def write_result(result: Any) -> str | None:
    """Return a tool's result as text: a string unchanged, and other values as JSON. Return None if the result is
    neither a string nor a JSON value.
    """
    if isinstance(result, str):
        return result
    try:
        return json.dumps(result, ensure_ascii=False)
    except (TypeError, ValueError):
        return None


def read_arguments(arguments: Any) -> dict[str, Any]:
    """Return the arguments of a tool call as a mapping of plain values. Arguments that are not a JSON object become the
    value of the key `input`.
    """
    value = arguments
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else {}
        except ValueError:
            return {"input": arguments}
    if not isinstance(value, Mapping):
        return {} if value is None else {"input": _to_plain(value)}
    return {str(key): _to_plain(each) for key, each in value.items()}


def _to_plain(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, ensure_ascii=False))
    except (TypeError, ValueError):
        return f"[{type(value).__name__}]"


def find_provider(*sources: Any, name: str = "", uri: str = "") -> ToolProvider | None:
    """Return the provider of a tool: `name` (a server or a group of tools) if it is given, else the first module that
    defines one of `sources`. Return None if neither names a provider.

    `sources` are the function of the tool and the tool itself; None is skipped, and a partial function is the function
    inside it. The kind is `mcp` if a source is defined by a module for MCP, else `builtin`. The main module of a program
    names no provider.
    """
    modules = [module for source in sources if (module := _module_of(source)) not in _NAMELESS_MODULES]
    is_mcp = any("mcp" in re.split(r"[._]", module) for module in modules)
    named = name or next(iter(modules), "")
    if not named:
        return None
    return ToolProvider(kind=ProviderKind.MCP if is_mcp else ProviderKind.BUILTIN, name=named, uri=uri)


def _module_of(source: Any) -> str:
    while isinstance(source, partial):
        source = source.func
    module = None if source is None else getattr(source, "__module__", None)
    return module if isinstance(module, str) else ""


def find_status(error: BaseException | str | None) -> ToolCallStatus:
    """Return the status of a tool call whose error is `error` (None: no error). The causes of the error count too. The
    text of a result never counts.
    """
    if error is None:
        return ToolCallStatus.SUCCESS
    if isinstance(error, BaseException):
        for each in _with_causes(error):
            for kinds, status in _STATUS:
                if isinstance(each, kinds):
                    return status
    return ToolCallStatus.ERROR


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        yield each
        seen.add(id(each))
        each = each.__cause__ or each.__context__


def read_documents(result: Any) -> tuple[FoundDocument, ...]:
    """Return the documents in the result of a search tool: a list of texts, mappings or document objects.

    A text in the list may be the JSON of a mapping. The text of a mapping or object is its `text`, `page_content`, `content`
    or `value`. Its address is `uri`, `url`, `link`, `source` or `file_path`.
    """
    value = result
    if isinstance(value, str):
        try:
            read = json.loads(value)
        except ValueError:
            read = None
        value = read if isinstance(read, list) else [value]
    items = value if isinstance(value, Sequence) else [value]
    return tuple(document for item in items if (document := _read_document(item)) is not None)


def _read_document(item: Any) -> FoundDocument | None:
    if isinstance(item, str):
        if item.startswith("{") and (found := _read_json_document(item)) is not None:
            return found
        return FoundDocument(text=item) if item.strip() else None
    fields = (
        item if isinstance(item, Mapping) else {name: getattr(item, name, None) for name in (*_TEXT_KEYS, "metadata")}
    )
    keys = (*_TEXT_KEYS, _VALUE) if isinstance(item, Mapping) else _TEXT_KEYS
    text_key = next((key for key in keys if isinstance(fields.get(key), str)), "")
    text = str(fields[text_key]) if text_key else ""
    if not text.strip():
        return None
    held = fields.get("metadata")
    metadata = held if isinstance(held, Mapping) else {}
    own = {key: value for key, value in item.items() if key != text_key} if isinstance(item, Mapping) else {}
    return document_from(text, {**metadata, **own})


def _read_json_document(text: str) -> FoundDocument | None:
    try:
        return _read_document(json.loads(text))
    except (ValueError, RecursionError):
        return None


def document_from(
    text: str, metadata: Mapping[str, Any], *, name: str = "", score: float | None = None
) -> FoundDocument:
    """Return a document with the text `text`. Its address is taken from `metadata`. The document keeps those other
    metadata that are numbers, truth values or short texts. `score` is the score of the retriever (None: unknown).
    """
    uri = next((str(metadata[key]) for key in ("uri", "url", "link", "source", "file_path") if metadata.get(key)), "")
    plain = {
        str(key): value
        for key, value in metadata.items()
        if key not in (*_TEXT_KEYS, "metadata")
        and (isinstance(value, int | float | bool) or (isinstance(value, str) and len(value) <= 500))
    }
    return FoundDocument(text=text, uri=uri, name=name, score=score, metadata=plain)
