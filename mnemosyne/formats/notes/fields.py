"""Converts the front matter of notes (the block of fields at their top) to fields of world info entries.

A field with the meaning of a native field (a field of SillyTavern's world info) becomes that native field. All other
fields are kept with the entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from mnemosyne.formats.books.conversions import has_keys, to_keys, to_number, to_text
from mnemosyne.formats.books.entries import count_unknown
from mnemosyne.formats.books.fields import ENABLED, FIELDS_BY_NAME, NativeField, take_fields, to_position
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.notes.text import link_text
from mnemosyne.values import dataclass

PATH = "notes.*."
_AT_DEPTH, _OUTLET = 4, 7
_USUAL_ORDER = 100
_MOST_KEYS = 500
_OFF_TAGS = {
    "lorebook-never": "the note is switched off",
    "lorebook-guide": "the note is for helpers that write, and is switched off",
    "lorebook-seed": "the note is for the start of a chat alone, and is switched off",
}
_ALWAYS_TAG = "lorebook-always"
LOREBOOK_TAG = "lorebook"
"""Tag of the notes that are entries, in vaults that mark them."""
_GATE = "a condition that is not heeded; kept with the entry"
_NOT_HEEDED = {
    "requires": _GATE,
    "excludes": _GATE,
    "era": _GATE,
    "location": _GATE,
    "scene_type": _GATE,
    "character_present": _GATE,
    "cascade_links": "other notes are not pulled in; kept with the entry",
    "warmup": "how often a key must occur is not heeded; kept with the entry",
}
_KEPT = {
    "summary": "says when to choose the note; kept with the entry",
    "graph": "kept for export",
    "type": "kept for export",
}
_LINKS_AS_TEXT = "links became their shown text"


def _note_position(value: Any) -> int:
    name = value.strip().lower().replace("-", "_") if isinstance(value, str) else ""
    return _AT_DEPTH if name in ("in_chat", "inchat") else int(to_position(value))


_FIELDS: Mapping[str, NativeField] = {
    **{
        name: FIELDS_BY_NAME[name]
        for name in (
            "constant", "vectorized", "selective", "selectiveLogic", "order", "disable", "ignoreBudget", "excludeRecursion",
            "preventRecursion", "delayUntilRecursion", "depth", "role", "groupWeight", "groupOverride", "scanDepth",
            "caseSensitive", "matchWholeWords", "sticky", "useProbability", "keysecondary",
        )
    },
    "refine_keys": FIELDS_BY_NAME["keysecondary"],
    "secondary_keys": FIELDS_BY_NAME["keysecondary"],
    "position": replace(FIELDS_BY_NAME["position"], convert=_note_position),
    "enabled": ENABLED,
    "disabled": FIELDS_BY_NAME["disable"],
    "scan_depth": FIELDS_BY_NAME["scanDepth"],
    "exclude_recursion": FIELDS_BY_NAME["excludeRecursion"],
    "prevent_recursion": FIELDS_BY_NAME["preventRecursion"],
}  # fmt: skip
"""Fields of front matter that mean the same as a native field. Names that a note may well use for other things, as `group`, are
not among them."""
_SPELLINGS = {
    name.lower(): name
    for name in (
        *_FIELDS, *_NOT_HEEDED, *_KEPT, "keys", "aliases", "tags", "title", "priority", "probability", "cooldown", "outlet",
    )
} | {"alias": "aliases", "tag": "tags", "keywords": "keys"}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyHabits:
    """The way in which the notes of one folder get their keys."""

    has_keys: bool
    """Whether at least one note states its `keys`. If none does, the title of each note is one of its keys."""
    own_tags: frozenset[str] = frozenset()
    """Tags that only one note has. If no note states its keys, such a tag is a key of its note."""


def canonical_front(front: Mapping[str, Any]) -> dict[str, Any]:
    """Return front matter with the usual spelling of each known field. If a field occurs in several spellings, the first
    counts.
    """
    named: dict[str, Any] = {}
    for name, value in front.items():
        usual = _SPELLINGS.get(name.lower(), name)
        named.setdefault(name if usual in named else usual, value)
    return named


def tags_of(front: Mapping[str, Any]) -> list[str]:
    """Return the tags of a note without `#`."""
    tags = _texts(front.get("tags"))
    if isinstance(front.get("tags"), str):
        tags = [part for tag in tags for part in tag.split()]
    return [tag.lstrip("#") for tag in tags if tag.lstrip("#")]


def names_keys(front: Mapping[str, Any]) -> bool:
    """Return whether the front matter of a note states its keys."""
    return has_keys(front.get("keys"))


def note_fields(
    front: Mapping[str, Any], title: str, habits: KeyHabits, counter: FieldCounter, dialect: str, named: set[str]
) -> dict[str, Any]:
    """Return the fields of the entry of a note, except its text. Fields without a native meaning are kept under `dialect`."""
    fields: dict[str, Any] = {}
    left = take_fields(front, _FIELDS, fields, counter, PATH, keeps_unusable=True)
    left |= {name: front[name] for name in ("scanDepth",) if front.get(name) is None and name in front}
    key = _take_keys(left, title, habits, counter)
    own: dict[str, Any] = {}
    if "title" in left and _is_text(left["title"]):
        counter.keep(f"{PATH}title", left.pop("title"))
    _take_tags(left, fields, own, counter)
    _take_numbers(left, fields, own, counter)
    for notes, count in ((_NOT_HEEDED, counter.refuse), (_KEPT, counter.keep)):
        for name in [each for each in notes if each in left]:
            own[name] = left.pop(name)
            count(f"{PATH}{name}", own[name], notes[name])
    count_unknown(left, counter, PATH, named)
    return {"key": key, "comment": title, **fields, dialect: own | left}


def _take_keys(left: dict[str, Any], title: str, habits: KeyHabits, counter: FieldCounter) -> list[str]:
    """Take the keys of a note out of its front matter `left`, and return them. The aliases of the note are keys too."""
    keys = _texts(left.get("keys"))
    aliases = _texts(left.get("aliases"))
    if "keys" in left:
        _count_texts("keys", left.pop("keys"), keys, counter)
    if "aliases" in left:
        counter.change(f"{PATH}aliases", left.pop("aliases"), "other names of the note; they are keys")
    if not habits.has_keys:
        keys.append(title)
        for tag in tags_of(left):
            if tag in habits.own_tags:
                keys.append(tag.rsplit("/", 1)[-1])
                counter.change(f"{PATH}tags", note="a tag of this note alone; it is a key")
    return list(dict.fromkeys(key for key in (*keys, *aliases) if key))[:_MOST_KEYS]


def _count_texts(name: str, value: Any, texts: list[str], counter: FieldCounter) -> None:
    written = [value] if isinstance(value, str) else value
    if not texts:
        counter.refuse(f"{PATH}{name}", value, "it has no text; left out")
    elif written == texts:
        counter.keep(f"{PATH}{name}", value)
    else:
        has_links = isinstance(written, list) and any(isinstance(each, str) and "[[" in each for each in written)
        counter.change(f"{PATH}{name}", value, _LINKS_AS_TEXT if has_links else "read as a list of texts")


def _take_tags(left: dict[str, Any], fields: dict[str, Any], own: dict[str, Any], counter: FieldCounter) -> None:
    tags = tags_of(left)
    if "tags" not in left:
        return
    own["tags"] = left.pop("tags")
    counter.keep(f"{PATH}tags", own["tags"], "kept for export")
    for tag, note in _OFF_TAGS.items():
        if tag in tags:
            fields["disable"] = True
            counter.change(f"{PATH}tags: {tag}", note=note)
    if _ALWAYS_TAG in tags:
        fields["constant"] = True
        counter.change(f"{PATH}tags: {_ALWAYS_TAG}", note="the note is constant")


def _take_numbers(left: dict[str, Any], fields: dict[str, Any], own: dict[str, Any], counter: FieldCounter) -> None:
    """Take the fields whose numbers have another meaning than in world info, and convert them."""
    if "order" not in fields and (priority := _number(left.get("priority"))) is not None:
        fields["order"] = 2 * _USUAL_ORDER - priority
        own["priority"] = left.pop("priority")
        counter.change(
            f"{PATH}priority", note="the lowest comes first; turned round into an order: 200 less the priority"
        )
    if (chance := _number(left.get("probability"))) is not None and 0 <= chance <= 100:
        own["probability"] = left.pop("probability")
        is_share = chance <= 1
        fields["probability"] = to_number(round(chance * 100, 6)) if is_share else chance
        fields.setdefault("useProbability", True)
        if is_share:
            counter.change(f"{PATH}probability", note="a share of 1; now in percent")
        else:
            counter.keep(f"{PATH}probability")
    if (cooldown := _number(left.get("cooldown"))) is not None and cooldown >= 0:
        own["cooldown"] = left.pop("cooldown")
        fields["cooldown"] = 2 * int(cooldown)
        counter.change(f"{PATH}cooldown", note="counts replies; now messages, twice as many")
    outlet = left.get("outlet")
    if isinstance(outlet, str) and outlet.strip():
        own["outlet"] = left.pop("outlet")
        fields |= {"position": _OUTLET, "outletName": outlet.strip()}
        counter.keep(f"{PATH}outlet")


def _number(value: Any) -> int | float | None:
    try:
        return None if value is None else to_number(value)
    except ValueError:
        return None


def _is_text(value: Any) -> bool:
    try:
        return bool(to_text(value).strip())
    except ValueError:
        return False


def _texts(value: Any) -> list[str]:
    """Return the texts of a field, which is a list or one text with commas. Links become their shown text."""
    try:
        texts: Iterable[str] = to_keys(value)
    except ValueError:
        return []
    return [shown for text in texts if (shown := _unlinked(text.strip()))]


def _unlinked(text: str) -> str:
    return link_text(text[2:-2]) if text.startswith("[[") and text.endswith("]]") else text
