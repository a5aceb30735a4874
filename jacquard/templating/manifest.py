"""Reads and checks the manifest of a template (`template.yaml`), which lists the blocks of a prompt. Pure.

Every template except `chat` inherits the blocks of the template that it `extends` (by default `chat`). Its manifest changes
inherited blocks by their id, adds blocks, and removes the blocks named under `without`. The files were read before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from filament import PayloadError, load_yaml_marked
from jacquard.core.block_kinds import WRAPPED_LAYERS
from jacquard.core.errors import TemplateError
from jacquard.templating.files import COMMON_TEMPLATE, TemplateFile, resolve_file, template_ids
from mnemosyne.schema.evidence import BlockType, Priority
from mnemosyne.values import dataclass

MANIFEST = "template.yaml"
EACH = ("directives",)
_KEYS = ("id", "title", "extends", "without", "blocks")
_BLOCK_KEYS = ("id", "file", "type", "slot", "priority", "layer", "section", "volatile", "order", "each", "title")
_DEPTH = 8

Files = Mapping[str, TemplateFile]
Blocks = dict[str, dict[str, Any]]
Lines = Mapping[tuple[str | int, ...], int]


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockSpec:
    """One block of a template, as the manifest describes it."""

    block_id: str
    name: str
    """Name of the file that renders the block."""
    type: BlockType
    slot: str
    priority: Priority
    layer: str | None
    section: str | None
    volatile: bool
    order: int
    each: str | None
    """Name of a list: the block is rendered once for each of its items (None: the block is rendered once)."""
    titles: Mapping[str, str]


def block_specs(files: Files, template_id: str) -> tuple[BlockSpec, ...]:
    """Return the blocks of the template `template_id`, sorted by `order`.

    Raises TemplateError if the template is unknown, or if its manifest or an inherited manifest has a fault.
    """
    known = template_ids(files)
    if template_id not in known:
        reason = f"there is no template {template_id!r}; there are: {', '.join(known)}"
        raise TemplateError(f"{template_id}/{MANIFEST}", None, reason)
    folders, blocks = _merge_manifests(files, template_id, 0)
    specs = [_spec(files, folders, block_id, fields) for block_id, fields in blocks.items()]
    return tuple(sorted(specs, key=lambda spec: (spec.order, spec.block_id)))


def _merge_manifests(files: Files, template_id: str, depth: int) -> tuple[tuple[str, ...], Blocks]:
    """Return the folders that may have a template's files, its own first, and the raw fields of each of its blocks."""
    file = files.get(f"{template_id}/{MANIFEST}")
    if file is None and template_id == COMMON_TEMPLATE:
        return (template_id,), {}
    document, lines = ({}, {}) if file is None else _document(file)
    parent = document.get("extends", None if template_id == COMMON_TEMPLATE else COMMON_TEMPLATE)
    if file is not None and parent is not None and (parent not in template_ids(files) or depth > _DEPTH):
        raise _fault(file, lines, ("extends",), "must name another template that does not extend this one")
    folders, blocks = _merge_manifests(files, parent, depth + 1) if isinstance(parent, str) else ((), {})
    if file is not None:
        _change(blocks, document, file, lines)
    return (template_id, *folders), blocks


def _change(blocks: Blocks, document: Mapping[str, Any], file: TemplateFile, lines: Lines) -> None:
    """Apply the blocks of one manifest to those of its parent, and remove those under `without`."""
    for place, entry in enumerate(document.get("blocks") or ()):
        where = ("blocks", place)
        if not isinstance(entry, dict) or not isinstance(entry.get("id"), str) or not entry["id"]:
            raise _fault(file, lines, where, "a block is a mapping with an `id`")
        _check_keys(file, lines, where, entry, _BLOCK_KEYS)
        for key, value in entry.items():
            if (want := _check_value(key, value)) is not None:
                raise _fault(file, lines, (*where, key), f"must be {want}")
        blocks[entry["id"]] = {**blocks.get(entry["id"], {}), **entry}
    for place, block_id in enumerate(document.get("without") or ()):
        if block_id not in blocks:
            raise _fault(file, lines, ("without", place), f"there is no block {block_id!r} to leave out")
        del blocks[block_id]


def _document(file: TemplateFile) -> tuple[dict[str, Any], Lines]:
    try:
        document, lines = load_yaml_marked(file.text)
    except PayloadError as error:
        raise TemplateError(file.shown, error.line, error.reason, file.line(error.line)) from error
    if not isinstance(document, dict):
        raise TemplateError(file.shown, 1, "a manifest is a mapping with `id` and `blocks`")
    _check_keys(file, lines, (), document, _KEYS)
    for key in ("blocks", "without"):
        if not isinstance(document.get(key, []), list):
            raise _fault(file, lines, (key,), "must be a list")
    return document, lines


def _spec(files: Files, folders: tuple[str, ...], block_id: str, fields: Mapping[str, Any]) -> BlockSpec:
    missing = [key for key in ("file", "type", "slot") if key not in fields]
    if missing:
        raise TemplateError(f"{folders[0]}/{MANIFEST}", None, f"block {block_id!r} lacks `{missing[0]}`; add it")
    titles = fields.get("title", {})
    return BlockSpec(
        block_id=block_id,
        name=resolve_file(files, folders, fields["file"]),
        type=BlockType(fields["type"]),
        slot=fields["slot"],
        priority=Priority(fields.get("priority", Priority.MEDIUM.value)),
        layer=fields.get("layer"),
        section=fields.get("section"),
        volatile=fields.get("volatile", False),
        order=fields.get("order", 0),
        each=fields.get("each"),
        titles=titles if isinstance(titles, dict) else {"en": titles},
    )


def _check_value(key: str, value: Any) -> str | None:
    """Return the required form of a block's value, or None if the value is allowed."""
    choices: dict[str, list[str | None]] = {
        "type": [kind.value for kind in BlockType],
        "priority": [priority.value for priority in Priority],
        "layer": [*WRAPPED_LAYERS, None],
        "each": [*EACH, None],
    }
    if key in choices:
        return (
            None if value in choices[key] else f"one of {', '.join(str(choice) for choice in choices[key] if choice)}"
        )
    if key == "volatile":
        return None if isinstance(value, bool) else "true or false"
    if key == "order":
        return None if isinstance(value, int) and not isinstance(value, bool) else "a whole number"
    if key == "title":
        texts = list(value.values()) if isinstance(value, dict) else [value]
        return None if all(isinstance(text, str) for text in texts) else "text, or a mapping from language to text"
    if key == "section" and value is None:
        return None
    if key == "file":
        return None if isinstance(value, str) and value.endswith(".j2") else "the name of a `.j2` file"
    return None if isinstance(value, str) and value else "text"


def _check_keys(
    file: TemplateFile, lines: Lines, where: tuple[str | int, ...], entry: Mapping[str, Any], known: tuple[str, ...]
) -> None:
    for key in entry:
        if key not in known:
            raise _fault(file, lines, (*where, key), f"is not a key here; known: {', '.join(known)}")


def _fault(file: TemplateFile, lines: Lines, path: tuple[str | int, ...], what: str) -> TemplateError:
    line = next((lines[path[:end]] for end in range(len(path), -1, -1) if path[:end] in lines), None)
    key = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    return TemplateError(file.shown, line, f"{key}: {what}" if key else what, file.line(line))
