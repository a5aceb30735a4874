"""Lists the fields of character cards with their names in each version, and converts their values to the right type.

Every value that is read is counted in a `FieldCounter`, which reports what was kept, changed or refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mnemosyne.formats.losses import AT_INPUT, FOR_EXPORT, FieldCounter, count_macros
from mnemosyne.schema.imported_files import DepthPrompt
from mnemosyne.values import dataclass

ORIGINAL = re.compile(r"\{\{original\}\}", re.IGNORECASE)
"""Placeholder in a card's instructions. It stands for the instructions that the program would use without the card."""
_ORIGINAL_NOTES = {
    "system_prompt": "stands for the instructions of the program; becomes the usual ones of an imported world",
    "post_history_instructions": "stands for the instructions of the program, of which there are none here; left out",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class CardField:
    """A field of a card. `name` is the name in `data`, `attribute` the name in CharacterCard, and `others` are further names in
    flat cards (cards without `data`).

    If `is_list`, the value is a list of texts. If `is_prompted`, a prompt may show the text, so that its macros are
    counted.
    """

    name: str
    attribute: str
    others: tuple[str, ...] = ()
    is_list: bool = False
    is_prompted: bool = True
    least_version: int = 2
    """Oldest version (2 or later) in which the field is required."""


NAME = CardField(name="name", attribute="name", others=("char_name",), is_prompted=False)
FIELDS = (
    NAME,
    CardField(name="nickname", attribute="nickname", is_prompted=False, least_version=9),
    CardField(name="description", attribute="description", others=("char_persona", "context")),
    CardField(name="personality", attribute="personality"),
    CardField(name="scenario", attribute="scenario", others=("world_scenario",)),
    CardField(name="first_mes", attribute="first_message", others=("char_greeting", "greeting")),
    CardField(name="mes_example", attribute="example_messages", others=("example_dialogue",)),
    CardField(name="creator_notes", attribute="creator_notes", others=("creatorcomment",), is_prompted=False),
    CardField(name="system_prompt", attribute="system_prompt"),
    CardField(name="post_history_instructions", attribute="post_history_instructions"),
    CardField(name="alternate_greetings", attribute="alternate_greetings", is_list=True),
    CardField(name="group_only_greetings", attribute="group_only_greetings", is_list=True, least_version=3),
    CardField(name="tags", attribute="tags", is_list=True, is_prompted=False),
)
"""Fields of CharacterCard, in the order in which a card is written."""
EXPORT_ONLY = {
    "creator": FOR_EXPORT,
    "character_version": FOR_EXPORT,
    "creator_notes_multilingual": FOR_EXPORT,
    "source": FOR_EXPORT,
    "creation_date": FOR_EXPORT,
    "modification_date": FOR_EXPORT,
}
"""Fields of `data` that describe the card and do not belong to the story."""
_REFUSED_EXTENSIONS = {
    "talkativeness": "how often the character speaks up in a group chat; kept for export",
    "world": "the name of a book in a file of its own: import that file too; kept for export",
    "regex_scripts": "scripts over texts are never run; kept for export",
    "risuai": "scripts, triggers and settings of Risu are never run; kept for export",
    "TavernHelper_scripts": "scripts are never run; kept for export",
    "tavern_helper": "scripts are never run; kept for export",
}
_ROLES = ("system", "user", "assistant")


def read_field(source: Mapping[str, Any], field: CardField, prefix: str, counter: FieldCounter) -> Any:
    """Return the text of a field (or its tuple of texts, if it is a list), and count its values.

    `prefix` is the path of the mapping `source` in the file. If `prefix` is empty, the card is flat, and the first of the
    field's names that has a value is used.
    """
    empty: Any = () if field.is_list else ""
    result = empty
    for name in (field.name,) if prefix else (field.name, *field.others):
        if name not in source:
            continue
        path = f"{prefix}{name}"
        if result:
            _count_other(source[name], result, path, field.name, counter)
            continue
        note = "" if name == field.name else f"becomes {prefix}{field.name}"
        if field.is_list:
            result = read_texts(source[name], path, counter, is_comma_list=field.name == "tags")
        else:
            result = read_text(source[name], path, counter, note=note)
        if field.is_prompted and result:
            _count_card_macros((result,) if isinstance(result, str) else result, path, counter)
    return result


def read_text(value: Any, path: str, counter: FieldCounter, *, note: str = "") -> str:
    """Return a value as a text and count it under `path`. A number becomes text, and a list of texts becomes lines.

    Any other value gives an empty text and is counted as refused.
    """
    if isinstance(value, str):
        if note:
            counter.change(path, value, note)
        else:
            counter.keep(path, value)
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        counter.change(path, value, "a number; taken as text")
        return str(value)
    if value and isinstance(value, list) and all(isinstance(each, str) for each in value):
        counter.change(path, value, "a list of texts; each becomes a line")
        return "\n".join(value)
    counter.refuse(path, value, f"{kind_of(value)} in the place of a text; {FOR_EXPORT}")
    return ""


def read_texts(value: Any, path: str, counter: FieldCounter, *, is_comma_list: bool = False) -> tuple[str, ...]:
    """Return a list of texts as a tuple, and count each text under `path`.

    A single text becomes a list of one. If `is_comma_list`, the text is split at its commas instead.
    """
    if isinstance(value, list):
        texts = [read_text(each, f"{path}.*", counter) for each in value]
        return tuple(text for text in texts if text)
    if isinstance(value, str) and is_comma_list:
        counter.change(path, value, "a text; its parts between commas become a list")
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, str):
        counter.change(path, value, "a text; becomes a list of one")
        return (value,) if value else ()
    counter.refuse(path, value, f"{kind_of(value)} in the place of a list of texts; {FOR_EXPORT}")
    return ()


def read_extensions(value: Any, prefix: str, counter: FieldCounter) -> DepthPrompt | None:
    """Return the character's note (`depth_prompt`) from the extensions of a card, or None if it has none. Every extension is
    counted under `prefix`.
    """
    if not isinstance(value, Mapping):
        counter.refuse(prefix.rstrip("."), value, f"{kind_of(value)} in the place of a mapping; {FOR_EXPORT}")
        return None
    for name, reason in _REFUSED_EXTENSIONS.items():
        counter.refuse(f"{prefix}{name}", value.get(name), reason)
    counter.keep(f"{prefix}fav", value.get("fav"), FOR_EXPORT)
    counter.keep_others(prefix, value, {*_REFUSED_EXTENSIONS, "fav", "depth_prompt"})
    return _read_depth_prompt(value.get("depth_prompt"), f"{prefix}depth_prompt", counter)


def kind_of(value: Any) -> str:
    """Return the type of a JSON value in words, for a sentence: `a list`."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "a text" if isinstance(value, str) else "a number"


def _read_depth_prompt(value: Any, path: str, counter: FieldCounter) -> DepthPrompt | None:
    if not isinstance(value, Mapping):
        counter.refuse(path, value, f"{kind_of(value)} in the place of a mapping; {FOR_EXPORT}")
        return None
    text = read_text(value.get("prompt"), f"{path}.prompt", counter)
    counter.keep_others(f"{path}.", value, ("prompt", "depth", "role"))
    if not text:
        counter.keep(f"{path}.depth", value.get("depth"), f"of an empty text; {FOR_EXPORT}")
        counter.keep(f"{path}.role", value.get("role"), f"of an empty text; {FOR_EXPORT}")
        return None
    _count_card_macros((text,), f"{path}.prompt", counter)
    prompt = DepthPrompt(text=text)
    return replace(
        prompt,
        depth=_read_depth(value.get("depth"), f"{path}.depth", prompt.depth, counter),
        role=_read_role(value.get("role"), f"{path}.role", prompt.role, counter),
    )


def _read_depth(value: Any, path: str, default: int, counter: FieldCounter) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        counter.change(path, value, AT_INPUT)
        return value
    number = value.strip() if isinstance(value, str) else ""
    if isinstance(value, float) and value >= 0:
        depth = int(value)
    elif number.isdecimal() and len(number) < 10:
        depth = int(number)
    else:
        depth = default
    counter.change(path, value, f"no whole number from 0 on; taken as {depth}")
    return depth


def _read_role(value: Any, path: str, default: str, counter: FieldCounter) -> str:
    if isinstance(value, str) and value in _ROLES:
        counter.change(path, value, AT_INPUT)
        return value
    role = default
    if isinstance(value, str) and value.strip().lower() in _ROLES:
        role = value.strip().lower()
    elif isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(_ROLES):
        role = _ROLES[value]
    counter.change(path, value, f"no role as cards write it; taken as {role}")
    return role


def _count_other(value: Any, taken: Any, path: str, name: str, counter: FieldCounter) -> None:
    """Count a field with the same meaning as the field `name`, which was used. If both values are equal, it is kept."""
    if (tuple(value) if isinstance(value, list) else value) == taken:
        counter.keep(path, value, f"the same as {name}; {FOR_EXPORT}")
    else:
        counter.refuse(path, value, f"{name} was taken, which says something else; {FOR_EXPORT}")


def count_beside_data(document: Mapping[str, Any], taken: Mapping[str, Any], counter: FieldCounter) -> None:
    """Count the fields of a V2 or V3 card that are outside of `data`. Many programs repeat fields of `data` there, for programs
    that read only V1.

    `taken` are the texts that were read from `data`, by the names of CharacterCard.
    """
    names = {name: field for field in FIELDS for name in (field.name, *field.others)}
    for name, value in document.items():
        if name in ("spec", "spec_version", "data"):
            continue
        if name in names and taken[names[name].attribute]:
            _count_other(value, taken[names[name].attribute], name, f"data.{names[name].name}", counter)
        else:
            counter.keep(name, value, f"beside data; {FOR_EXPORT}")


def _count_card_macros(texts: tuple[str, ...], path: str, counter: FieldCounter) -> None:
    note = _ORIGINAL_NOTES.get(path.rpartition(".")[2])
    for text in texts if note else ():
        for _ in ORIGINAL.findall(text):
            counter.change(f"{path}: {{{{original}}}}", note=note or "")
    count_macros([ORIGINAL.sub(" ", text) for text in texts] if note else texts, path, counter)
