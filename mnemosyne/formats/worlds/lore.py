"""Converts entries of books to lore of a world pack (a world as files), and back.

The text of an entry becomes the text of a lore entry, in which an author can edit it. Fields that only the original
program knows are kept under `world_info` of the lore entry. An exported book contains the edits of the author.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from mnemosyne.schema.imported_files import BookEntry, WorldBook
from mnemosyne.schema.memory import LoreCategory, MemoryEntry
from mnemosyne.schema.world import WorldPack
from mnemosyne.values import dataclass
from mnemosyne.world.activation.macros import fill_names

WORLD_INFO = "world_info"
CARD_IDS = "card-"
"""Prefix of the ids of lore entries that were made from the texts of a card."""
AT_DEPTH = 4
MOST_KEYS = 200
_MOST_NAME_CHARS = 200
_IS_PATTERN = re.compile(r"/.+/[a-z]*\Z", re.DOTALL)
_NOT_IN_SLUG = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """Names that replace placeholders in the texts of cards and books, and the data that character filters are compared with."""

    char: str = ""
    """Name that replaces `{{char}}`."""
    user: str = ""
    """Name that replaces `{{user}}`."""
    files: tuple[str, ...] = ()
    """Names of the files of the characters' cards. A character filter is compared with `files` and `tags`. If both are
    empty, every filter admits.
    """
    tags: tuple[str, ...] = ()

    def fill(self, text: str) -> str:
        """Return a text with its placeholders replaced by the names."""
        return fill_names(text, char=self.char, user=self.user)

    def admits(self, character_filter: Any) -> bool:
        """Return whether a character filter admits one of the characters. A missing or empty filter admits all."""
        if not isinstance(character_filter, Mapping) or not self.files:
            return True
        named = {_text(each) for each in _list(character_filter.get("names"))}
        tagged = {_text(each) for each in _list(character_filter.get("tags"))}
        if not named and not tagged:
            return True
        is_meant = not named.isdisjoint(self.files) or not tagged.isdisjoint(self.tags)
        return is_meant is not (character_filter.get("isExclude") is True)


def names_of(imported: Mapping[str, Any]) -> Names:
    """Return the names that are stored in the `imported.json` of a pack; `imported` is its content."""
    told = imported.get("names")
    names: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    return Names(
        char=_text(names.get("char")),
        user=_text(names.get("user")),
        files=tuple(map(_text, _list(names.get("files")))),
        tags=tuple(map(_text, _list(names.get("tags")))),
    )


def slug_of(name: str, *, most: int = 40) -> str:
    """Return a name in lower-case letters, digits and `-`, at most `most` characters long. A space becomes `-`.

    If another character had to be left out, a hash is added, so that different names have different slugs. The same name
    always gives the same slug.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = _NOT_IN_SLUG.sub("-", plain).strip("-")[:most].strip("-")
    if slug and slug == name.lower().replace(" ", "-"):
        return slug
    return f"{slug}-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}".strip("-")


def is_pattern(key: str) -> bool:
    """Return whether a key of world info is a regular expression (`/…/flags`)."""
    return _IS_PATTERN.match(key) is not None


def list_lore(book: WorldBook, names: Names) -> Iterator[dict[str, Any]]:
    """Yield the lore entries of a book, as they are written in a pack, in the order of the book.

    Entries without text are left out (see `list_empty`). A constant entry is shown in every turn. It becomes a directive
    (shown right before the input) if its position is at a depth of the chat, and otherwise an axiom (lore that every
    prompt shows). All other entries are recalled by relevance. An entry is disabled if it is switched off or is for other
    characters.
    """
    for entry in book.entries:
        lore = _to_lore(entry, book.name, names)
        if lore["content"]:
            yield {key: value for key, value in lore.items() if value not in ([], False) or key == "enabled"}


def _to_lore(entry: BookEntry, book: str, names: Names) -> dict[str, Any]:
    fields = dict(entry.fields)
    written = _text(fields.pop("content", ""))
    content = names.fill(written).strip()
    keys = [_text(key).strip() for key in _list(fields.get("key")) if _text(key).strip()]
    name = " ".join(names.fill(_text(fields.get("comment")) or next(iter(keys), "") or entry.uid).split())
    is_constant = fields.get("constant") is True
    kept = {"world": book, "uid": entry.uid, "fields": fields}
    return {
        "id": f"{slug_of(book)}-{slug_of(entry.uid)}",
        "name": name[:_MOST_NAME_CHARS] or entry.uid[:_MOST_NAME_CHARS] or "entry",
        "category": _category(fields, is_constant=is_constant).value,
        "content": content,
        "keys": [names.fill(key)[:_MOST_NAME_CHARS] for key in keys if not is_pattern(key)][:MOST_KEYS],
        "priority": _priority(fields.get("order")),
        "constant": is_constant and _is_at_depth(fields),
        "enabled": fields.get("disable") is not True and names.admits(fields.get("characterFilter")),
        WORLD_INFO: kept if written == content else {**kept, "content": written},
    }


def list_empty(book: WorldBook) -> list[dict[str, Any]]:
    """Return `uid` and `fields` of the entries of a book without text, which cannot become lore."""
    return [
        {"uid": entry.uid, "fields": dict(entry.fields)}
        for entry in book.entries
        if not _text(entry.fields.get("content")).strip()
    ]


def books_of(world: WorldPack) -> tuple[WorldBook, ...]:
    """Return the books of a world: the imported books with the edits of the author, and a book with all other lore.

    The book with other lore has the title of the world. Entries of an imported book are in the order of its file, with
    new ones last.
    """
    names = names_of(world.imported)
    told = {_text(each.get("name")): each for each in _list(world.imported.get("books")) if isinstance(each, Mapping)}
    books: dict[str, list[BookEntry]] = {name: [] for name in told}
    own: list[BookEntry] = []
    for is_off, entries in ((False, world.lore), (True, world.disabled)):
        for entry in entries:
            kept = entry.metadata.get(WORLD_INFO)
            if isinstance(kept, Mapping) and isinstance(kept.get("fields"), Mapping):
                restored = _restore(entry, kept, names, is_off=is_off)
                books.setdefault(_text(kept.get("world")), []).append(restored)
            elif not entry.entry_id.startswith(CARD_IDS):
                own.append(_convert(entry, len(own), is_off=is_off))
    made = [_join(name, entries, told.get(name, {})) for name, entries in books.items()]
    if own:
        made.append(WorldBook(name=world.title, dialect="jacquard", entries=tuple(own)))
    return tuple(made)


def _join(name: str, entries: list[BookEntry], told: Mapping[str, Any]) -> WorldBook:
    """Return a book with `entries` and its entries without text, in the order of its file."""
    empty = [
        BookEntry(uid=_text(each.get("uid")), fields=dict(each["fields"]))
        for each in _list(told.get("empty"))
        if isinstance(each, Mapping) and isinstance(each.get("fields"), Mapping)
    ]
    order = {_text(uid): place for place, uid in enumerate(_list(told.get("order")))}
    return WorldBook(
        name=name,
        dialect=_text(told.get("dialect")) or "sillytavern",
        entries=tuple(sorted((*entries, *empty), key=lambda entry: order.get(entry.uid, len(order)))),
        extra=dict(told.get("extra") or {}),
    )


def _restore(entry: MemoryEntry, kept: Mapping[str, Any], names: Names, *, is_off: bool) -> BookEntry:
    """Return an entry of a book, with the changes that its lore entry got since the import."""
    uid, fields = _text(kept.get("uid")), dict(kept["fields"])
    fields["content"] = _text(kept.get("content"), entry.text)
    was = _to_lore(BookEntry(uid=uid, fields=fields), _text(kept.get("world")), names)
    if was["content"] != entry.text:
        fields["content"] = entry.text
    if was["name"] != entry.title:
        fields["comment"] = entry.title
    if was["keys"] != list(entry.keys):
        fields["key"] = [*entry.keys, *(key for key in map(_text, _list(fields.get("key"))) if is_pattern(key))]
    if was["enabled"] is is_off:
        fields["disable"] = is_off
    return BookEntry(uid=uid, fields=fields)


def _convert(entry: MemoryEntry, place: int, *, is_off: bool) -> BookEntry:
    """Return lore that an author wrote as an entry of world info."""
    is_constant = entry.kind == LoreCategory.AXIOM.value or entry.metadata.get("constant") is True
    fields: dict[str, Any] = {
        "key": list(dict.fromkeys(key for key in (entry.title, *entry.keys) if key)),
        "keysecondary": [],
        "comment": entry.title,
        "content": entry.text,
        "constant": is_constant,
        "selective": True,
        "order": entry.priority * 2,
        "position": AT_DEPTH if entry.kind == LoreCategory.DIRECTIVE.value else 0,
        "disable": is_off,
    }
    if entry.kind == LoreCategory.DIRECTIVE.value:
        fields["depth"] = 0
    return BookEntry(uid=str(place), fields=fields)


def _category(fields: Mapping[str, Any], *, is_constant: bool) -> LoreCategory:
    if not is_constant:
        return LoreCategory.ENCYCLOPEDIA
    return LoreCategory.DIRECTIVE if _is_at_depth(fields) else LoreCategory.AXIOM


def _is_at_depth(fields: Mapping[str, Any]) -> bool:
    return fields.get("position") == AT_DEPTH


def _priority(order: Any) -> int:
    """Return the priority of lore for an insertion order: half of it, from 0 to 100. The usual order 100 gives 50."""
    return max(0, min(100, int(order) // 2)) if isinstance(order, int | float) and not isinstance(order, bool) else 50


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _text(value: Any, default: str = "") -> str:
    return value if isinstance(value, str) else default if value is None else str(value)


def joined_texts(books: Iterable[WorldBook]) -> str:
    """Return the beginnings of the texts in books, for the detection of their language."""
    return "\n".join(_text(entry.fields.get("content"))[:500] for book in books for entry in book.entries[:50])
