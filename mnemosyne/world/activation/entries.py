"""Reads entries of world info from their native fields, for the activation of entries.

World info is a book of entries; an entry's text is put into the prompt when one of its keys is found in the chat. Native fields
are the fields of SillyTavern's files. A value of a wrong type counts as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from hashlib import sha256
from typing import Any, TypeVar

from mnemosyne.world.activation.values import (
    BookSource,
    CharacterFilter,
    SelectiveLogic,
    WorldInfoEntry,
    WorldInfoPosition,
)

ACTIVATE, DONT_ACTIVATE = "@@activate", "@@dont_activate"
_KNOWN = (ACTIVATE, DONT_ACTIVATE)
_SCANNED_FIELDS = {
    "matchPersonaDescription": "persona_description",
    "matchCharacterDescription": "character_description",
    "matchCharacterPersonality": "character_personality",
    "matchCharacterDepthPrompt": "character_depth_prompt",
    "matchScenario": "scenario",
    "matchCreatorNotes": "creator_notes",
}
E = TypeVar("E", bound=IntEnum)


def read_entry(fields: Mapping[str, Any], *, world: str, uid: str, source: BookSource) -> WorldInfoEntry:
    """Return the entry that the native fields `fields` describe.

    `world` is the name of the entry's book, `uid` is unique in that book, and `source` is where the chat takes the book from.
    Decorators (`@@…` lines at the top of the text) are taken out of the text.
    """
    decorators, content = split_decorators(_text(fields.get("content")))
    return WorldInfoEntry(
        uid=uid,
        world=world,
        source=source,
        key=_texts(fields.get("key")),
        key_secondary=_texts(fields.get("keysecondary")),
        content=content,
        comment=_text(fields.get("comment")),
        selective=_flag(fields.get("selective"), default=True),
        selective_logic=_choice(fields.get("selectiveLogic"), SelectiveLogic.AND_ANY),
        constant=_flag(fields.get("constant")),
        disable=_flag(fields.get("disable")),
        order=int(_number(fields.get("order"), 100)),
        position=_choice(fields.get("position"), WorldInfoPosition.BEFORE_CHAR),
        depth=int(_number(fields.get("depth"), 4)),
        role=int(_number(fields.get("role"), 0)),
        outlet_name=_text(fields.get("outletName")),
        probability=_number(fields.get("probability"), 100),
        use_probability=_flag(fields.get("useProbability"), default=True),
        exclude_recursion=_flag(fields.get("excludeRecursion")),
        prevent_recursion=_flag(fields.get("preventRecursion")),
        delay_until_recursion=int(_number(fields.get("delayUntilRecursion"), 0)),
        group=_text(fields.get("group")),
        group_override=_flag(fields.get("groupOverride")),
        group_weight=int(_number(fields.get("groupWeight"), 100)),
        use_group_scoring=_optional_flag(fields.get("useGroupScoring")),
        scan_depth=_optional_number(fields.get("scanDepth")),
        case_sensitive=_optional_flag(fields.get("caseSensitive")),
        match_whole_words=_optional_flag(fields.get("matchWholeWords")),
        sticky=int(_number(fields.get("sticky"), 0)),
        cooldown=int(_number(fields.get("cooldown"), 0)),
        delay=int(_number(fields.get("delay"), 0)),
        ignore_budget=_flag(fields.get("ignoreBudget")),
        triggers=_texts(fields.get("triggers")),
        match_fields=tuple(name for flag, name in _SCANNED_FIELDS.items() if _flag(fields.get(flag))),
        character_filter=_character_filter(fields.get("characterFilter")),
        decorators=decorators,
    )


def split_decorators(content: str) -> tuple[tuple[str, ...], str]:
    """Return (decorators, text): the known decorators at the top of `content`, and the text below the leading `@@` lines.

    A line with `@@@` is read only if the decorator in the line before is unknown. If all lines begin with `@@`, `text` is the
    whole `content`.
    """
    if not content.startswith("@@"):
        return (), content
    found: list[str] = []
    is_unknown = False
    lines = content.split("\n")
    for number, line in enumerate(lines):
        if not line.startswith("@@"):
            return tuple(found), "\n".join(lines[number:])
        if line.startswith("@@@") and not is_unknown:
            continue
        plain = line[1:] if line.startswith("@@@") else line
        is_unknown = not plain.startswith(_KNOWN)
        if not is_unknown:
            found.append(plain)
    return tuple(found), content


def hash_entry(entry: WorldInfoEntry) -> str:
    """Return the hash of `entry`. A timed effect stores this hash, so it ends when its entry is changed."""
    return sha256(repr(entry).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def name_of(entry: WorldInfoEntry) -> str:
    """Return the name of an entry: `BOOK.UID`."""
    return f"{entry.world}.{entry.uid}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list | tuple) else ()


def _flag(value: Any, *, default: bool = False) -> bool:
    return default if value is None else bool(value)


def _optional_flag(value: Any) -> bool | None:
    return None if value is None else bool(value)


def _number(value: Any, default: float) -> float:
    if isinstance(value, bool):
        return float(value)
    return value if isinstance(value, int | float) and abs(value) < 1e12 else default


def _optional_number(value: Any) -> int | None:
    return int(_number(value, 0)) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _choice(value: Any, default: E) -> E:
    try:
        return type(default)(value)
    except ValueError:
        return default


def _character_filter(value: Any) -> CharacterFilter | None:
    if not isinstance(value, Mapping):
        return None
    return CharacterFilter(
        names=_texts(value.get("names")), tags=_texts(value.get("tags")), is_exclude=_flag(value.get("isExclude"))
    )
