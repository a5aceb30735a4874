"""Makes the reference of the settings from the types of the sections: Markdown for people, JSON Schema 2020-12 for
programs.

`python -m jacquard.config.reference docs` writes `settings.md` and `schema/settings.json` into that folder.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from jacquard.config.fields import ANY, LOWER
from jacquard.config.sections import ArmConfig, RuntimeConfig
from jacquard.config.service import ServiceSettings
from jacquard.config.settings import BETWEEN, OF_NO_ARM, PREFIX, SERVICE
from mnemosyne.files import write_file

PAGE_FILE = "settings.md"
SCHEMA_FILE = "schema/settings.json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ARM_PATH = ("experiments", "EXPERIMENT", "ARM")
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_KINDS = {str: "text", int: "whole number", float: "number", bool: "true or false"}
_INTRODUCTION = """# Settings

Every setting, with its default and its bounds. A setting is given in code (`RuntimeConfig`), in a YAML file (`--config FILE`,
`load_config`), or in an environment variable; the environment counts over the file, the file over the default. The section
`service` is read by `jacquard operate serve` alone, whose options count over the environment. A list or a mapping
in a variable is written as YAML (`[must, high]`, `{low: 3600}`). An unknown name or a value outside its bounds is refused with a
`ConfigError` that names it. Bounds are included.

A call of the [service](service.md#operations) may bring settings of its own (`config`). The column 'in a call' says which ones a
token of scope `play` or `author` may set: to any value; up to a number (or to the service's own value, if that is more); or only
lower than the service's own value (a smaller number, `false`, an earlier word). Without an entry it may not be set. A token of
scope `admin` may set all of them. A new setting is closed until its definition opens it.

The same in a form for programs: [JSON Schema](schema/settings.json), printed by
`jacquard author schema settings`.

This page is generated: `python -m jacquard.config.reference docs` writes it.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One setting: its path from the root of the configuration, its type, its plain default, its metadata and one sentence."""

    path: tuple[str, ...]
    hint: Any
    default: Any
    metadata: Mapping[str, Any]
    doc: str

    @property
    def variable(self) -> str:
        """The environment variable by which it is set."""
        return PREFIX + BETWEEN.join(self.path).upper()


def settings_of(kind: Any = RuntimeConfig, path: tuple[str, ...] = ()) -> Iterator[Setting]:
    """Yield every setting of a section in the order of its fields, each sub-section's settings in its place."""
    hints = get_type_hints(kind)
    for each in fields(kind):
        hint, here = hints[each.name], (*path, each.name)
        if is_dataclass(hint):
            yield from settings_of(hint, here)
            continue
        yield _build_setting(each, hint, here)
        if (nested := _find_section_class(hint)) is not None:
            for part in settings_of(nested, here):
                yield Setting(
                    path=part.path,
                    hint=part.hint,
                    default=part.default,
                    metadata=part.metadata,
                    doc=each.metadata["parts"][part.path[-1]],
                )


def settings_schema() -> dict[str, Any]:
    """Return the JSON Schema of a settings file: the root is RuntimeConfig with the section of the service, the sections are its
    `$defs`.
    """
    defs: dict[str, Any] = {}
    root = _build_object_schema(RuntimeConfig, defs)
    root["properties"][SERVICE] = _build_schema(ServiceSettings, {}, defs)
    return {"$schema": DIALECT, "$id": "urn:jacquard:settings", "title": "Settings", **root, "$defs": defs}


def schema_text() -> str:
    """Return the JSON Schema as it is published."""
    return json.dumps(settings_schema(), ensure_ascii=False, indent=2) + "\n"


def page_text() -> str:
    """Return the page of all settings: one table for those of the root, one for each section."""
    hints = get_type_hints(RuntimeConfig)
    sections: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    root = [each for each in settings_of() if each.path[0] not in sections]
    parts = [_INTRODUCTION, f"## The turn\n\n{_read_first_paragraph(RuntimeConfig)}\n\n{_format_table(root)}"]
    parts += [
        f"## `{name}`\n\n{_read_first_paragraph(kind)}\n\n{_format_table(settings_of(kind, (name,)))}"
        for name, kind in sections.items()
    ]
    parts.append(
        f"## `experiments`\n\n{_read_first_paragraph(ArmConfig)}\n\n{_format_table(settings_of(ArmConfig, _ARM_PATH))}"
    )
    service = settings_of(ServiceSettings, (SERVICE,))
    parts.append(f"## `{SERVICE}`\n\n{_read_first_paragraph(ServiceSettings)}\n\n{_format_table(service)}")
    return "\n".join(parts)


def publish(docs: Path) -> None:
    """Write the page and the schema into the folder `docs`."""
    (docs / SCHEMA_FILE).parent.mkdir(parents=True, exist_ok=True)
    write_file(docs / SCHEMA_FILE, schema_text())
    write_file(docs / PAGE_FILE, page_text())


def _build_setting(each: Field[Any], hint: Any, path: tuple[str, ...]) -> Setting:
    default = each.default if each.default_factory is MISSING else each.default_factory()
    return Setting(
        path=path, hint=hint, default=_to_plain(default), metadata=each.metadata, doc=each.metadata.get("doc", "")
    )


def _to_plain(value: Any) -> Any:
    """Return a default as a JSON value."""
    if isinstance(value, Mapping):
        return {str(key): _to_plain(one) for key, one in value.items()}
    return [_to_plain(one) for one in value] if isinstance(value, tuple) else value


def _find_section_class(hint: Any) -> Any:
    """Return the class of a section that may be absent (`Section | None`), or None."""
    return next((one for one in get_args(hint) if is_dataclass(one)), None) if _may_be_none(hint) else None


def _may_be_none(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint)


def _read_first_paragraph(kind: type) -> str:
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split())


def _build_object_schema(kind: Any, defs: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a section; every field is optional, and unknown names are refused as they are when settings
    are read.
    """
    hints = get_type_hints(kind)
    properties: dict[str, Any] = {}
    for each in fields(kind):
        hint = hints[each.name]
        if is_dataclass(hint):
            properties[each.name] = _build_schema(hint, {}, defs)
            continue
        setting = _build_setting(each, hint, (each.name,))
        doc = {"description": setting.doc} if setting.doc else {}
        properties[each.name] = {**_build_schema(hint, each.metadata, defs), **doc, "default": setting.default}
    if kind is ArmConfig:
        properties["config"] = {
            **properties["config"],
            "allOf": [{"$ref": "#"}],
            "properties": dict.fromkeys(sorted(OF_NO_ARM | {SERVICE}), False),
        }
    made = {"description": _read_first_paragraph(kind), "type": "object", "properties": properties}
    return {**made, "additionalProperties": False}


def _build_schema(hint: Any, metadata: Mapping[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if _may_be_none(hint):
        inner = _build_schema(next(one for one in arguments if one is not NoneType), metadata, defs)
        return {**inner, "type": [inner["type"], "null"]} if "type" in inner else {"anyOf": [inner, {"type": "null"}]}
    if is_dataclass(hint):
        name = hint.__name__  # type: ignore[union-attr]
        if name not in defs:
            defs[name] = _build_object_schema(hint, defs)
        return {"$ref": f"#/$defs/{name}"}
    if origin is tuple:
        return {"type": "array", "items": _build_schema(arguments[0], metadata, defs)}
    if origin is not None:
        keys = {"propertyNames": {"enum": list(metadata["keys"])}} if "keys" in metadata else {}
        return {"type": "object", "additionalProperties": _build_schema(arguments[1], metadata, defs), **keys}
    if hint is Any:
        return {}
    bounds = {"minimum": metadata.get("low"), "maximum": metadata.get("high"), "enum": metadata.get("words")}
    kept = {key: list(bound) if key == "enum" else bound for key, bound in bounds.items() if bound is not None}
    return {"type": _TYPES[hint], **kept}


def _format_table(settings: Iterable[Setting]) -> str:
    rows = ["| setting | what | default | in a call | environment variable | meaning |", f"|{' --- |' * 6}"]
    rows += [
        f"| `{'.'.join(each.path)}` | {_describe_kind(each.hint, each.metadata)} | {_format_default(each.default)} "
        f"| {_describe_call(each.metadata.get('call'))} | `{each.variable}` | {each.doc} |"
        for each in settings
    ]
    return "\n".join(rows) + "\n"


def _describe_call(call: float | None) -> str:
    """Return in words what a call may do with a setting."""
    return {None: "", ANY: "any", LOWER: "lower"}.get(call, f"up to {call}")


def _format_default(value: Any) -> str:
    if value is None or value in ({}, []):
        return "none"
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value, ensure_ascii=False)}`"


def _describe_kind(hint: Any, metadata: Mapping[str, Any]) -> str:
    """Return in words which values a setting can have, with its bounds."""
    origin, arguments = get_origin(hint), get_args(hint)
    if _may_be_none(hint):
        return f"{_describe_kind(next(one for one in arguments if one is not NoneType), metadata)}, or none"
    if is_dataclass(hint):
        return "mapping"
    if origin is tuple:
        return f"list of {_describe_kind(arguments[0], metadata)}"
    if origin is not None:
        keys = f" of {_join_words(metadata['keys'])}" if "keys" in metadata else ""
        values = "mappings" if get_origin(arguments[1]) is not None else _describe_kind(arguments[1], metadata)
        return f"mapping{keys} to {values}"
    if hint is Any:
        return "any value"
    if words := metadata.get("words"):
        return _join_words(words)
    low, high = metadata.get("low"), metadata.get("high")
    if high is not None:
        return f"{_KINDS[hint]} {low:g}..{high:g}"
    return _KINDS[hint] if low is None else f"{_KINDS[hint]} from {low:g}"


def _join_words(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


if __name__ == "__main__":
    publish(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
