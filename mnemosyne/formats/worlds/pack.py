"""Converts cards and books to the files of a world pack (a world as files), and back.

The files depend only on the imports: the same cards and books give the same files. `imported.json` keeps the data that
the other files have no place for, so that an export can return it. The persona is the part of a world that describes the
model's character.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from filament.payload import dump_yaml
from mnemosyne.formats.cards.card_json import parse_card
from mnemosyne.formats.cards.texts import greetings_of, instructions_of, persona_of
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.worlds.lore import CARD_IDS, Names, books_of, joined_texts, list_empty, list_lore, slug_of
from mnemosyne.schema.imported_files import AuthorsNote, CharacterCard, WorldBook
from mnemosyne.schema.memory import LoreCategory
from mnemosyne.schema.world import RECALL, WorldPack
from mnemosyne.values import dataclass
from mnemosyne.world.reading.files import IMPORTED_FILE

LORE_FOLDER = "lore/imported"
_VERSION = 1
_USERS = {"en": "User", "zh": "用户"}
_INSTRUCTIONS = {
    "en": "You play {char} in a story with {user}. Stay in character, keep to what the character and the world are, and write "
    "only what {char} and the world around do and say, never what {user} does.",
    "zh": "你在与{user}的故事中扮演{char}。始终保持角色，遵守人物与世界的设定；只写{char}和周围世界的言行，不替{user}行动或说话。",
}
_NOBODY = {"en": "the narrator", "zh": "旁白"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedWorld:
    """Sources of a world: cards, books and an author's note. If `title` or `locale` is empty, it is derived from the
    cards and books.
    """

    world_id: str
    title: str = ""
    locale: str = ""
    activation: str = RECALL
    user_name: str = ""
    cards: tuple[CharacterCard, ...] = ()
    books: tuple[WorldBook, ...] = ()
    authors_note: AuthorsNote | None = None


def join_imports(world: ImportedWorld, cards: Sequence[CharacterCard], books: Sequence[WorldBook]) -> ImportedWorld:
    """Return a world with additional cards and books. A card or book with the same name as an earlier one replaces it.

    The book of a card is added like the other books.
    """
    joined = {card.name: card for card in (*world.cards, *cards)}
    own = [replace(card.book, name=card.book.name or card.name) for card in cards if card.book is not None]
    by_name = {book.name: book for book in (*world.books, *own, *books)}
    return replace(world, cards=tuple(joined.values()), books=tuple(by_name.values()))


def names_for(world: ImportedWorld) -> Names:
    """Return the names that fill the placeholders in the texts of a world's cards and books."""
    language = _language(world)
    return Names(
        char=", ".join(card.nickname or card.name for card in world.cards) or _NOBODY[language],
        user=world.user_name or _USERS[language],
        files=tuple(card.file_name or card.name for card in world.cards),
        tags=tuple(dict.fromkeys(tag for card in world.cards for tag in card.tags)),
    )


def pack_files(world: ImportedWorld, *, has_greeting: bool = True) -> dict[str, bytes]:
    """Return the files of the pack of a world, by name. If `has_greeting`, sessions begin with the greeting of the first
    card.
    """
    names = names_for(world)
    files = {
        "world.yaml": _yaml(_world_file(world, names)),
        IMPORTED_FILE: json_bytes(imported_value(world)),
        **lore_files(world, names),
    }
    greetings = greetings_of(world.cards[0], user=names.user) if world.cards and has_greeting else ()
    if greetings:
        files["history.yaml"] = _yaml({"turns": [{"user": "", "assistant": greetings[0]}]})
    if world.authors_note is not None and world.authors_note.text.strip() and world.authors_note.interval > 0:
        note = world.authors_note
        files["injections.yaml"] = _yaml(
            [{"id": "authors-note", "text": names.fill(note.text).strip(), "every": note.interval}]
        )
    return files


def lore_files(world: ImportedWorld, names: Names) -> dict[str, bytes]:
    """Return the files of lore by name: one for each book with text, and one for the texts of cards that are not in the
    persona.
    """
    made = {f"{LORE_FOLDER}/{slug_of(book.name)}.yaml": lore_of_book(book, names) for book in world.books}
    made[f"{LORE_FOLDER}/cards.yaml"] = lore_of_cards(world.cards, names)
    return {name: data for name, data in made.items() if data}


def lore_of_book(book: WorldBook, names: Names) -> bytes:
    """Return the content of the lore file of a book. It is empty if no entry has text."""
    lore = list(list_lore(book, names))
    return _yaml(lore) if lore else b""


def lore_of_cards(cards: Sequence[CharacterCard], names: Names, guests: Collection[str] = ()) -> bytes:
    """Return the content of the lore file of cards. It is empty if the cards give no lore.

    The character's note of a card and its instructions after the history become directives, which are shown right before
    the input. A card whose name is in `guests` is not the persona of the world; its description becomes lore about the
    character.
    """
    lore = [entry for card in cards for entry in _card_lore(card, names, is_guest=card.name in guests)]
    return _yaml(lore) if lore else b""


def imported_value(world: ImportedWorld) -> dict[str, Any]:
    """Return the content of `imported.json`: the data that the other files of a pack have no place for."""
    names = names_for(world)
    value: dict[str, Any] = {
        "version": _VERSION,
        "names": {"char": names.char, "user": names.user, "files": [*names.files], "tags": [*names.tags]},
        "cards": [
            {"file_name": card.file_name, "name": card.name, "tags": [*card.tags], "document": dict(card.document)}
            for card in world.cards
        ],
        "books": [
            {
                "name": book.name,
                "dialect": book.dialect,
                "extra": dict(book.extra),
                "order": [entry.uid for entry in book.entries],
                "source": digest_of(book),
                "empty": list_empty(book),
            }
            for book in world.books
        ],
    }
    if world.user_name:
        value["user_name"] = world.user_name
    if world.authors_note is not None:
        note = world.authors_note
        value["authors_note"] = {
            "text": note.text,
            "interval": note.interval,
            "depth": note.depth,
            "role": note.role,
        }
    return value


def imported_world_of(world: WorldPack) -> ImportedWorld:
    """Return the imports of a pack, with its present books. A pack that an author wrote has books and no cards."""
    imported = world.imported
    return ImportedWorld(
        world_id=world.world_id,
        title=world.title,
        locale=world.locale,
        activation=world.activation,
        user_name=str(imported.get("user_name") or ""),
        cards=cards_of(world),
        books=books_of(world),
        authors_note=authors_note_of(world),
    )


def authors_note_of(world: WorldPack) -> AuthorsNote | None:
    """Return the author's note that was imported with a world, or None if it has none."""
    told = world.imported.get("authors_note")
    return AuthorsNote(**told) if isinstance(told, dict) and isinstance(told.get("text"), str) else None


def cards_of(world: WorldPack) -> tuple[CharacterCard, ...]:
    """Return the cards that a world was made from, in their order."""
    told = world.imported.get("cards")
    return tuple(
        parse_card(each["document"], file_name=str(each.get("file_name") or ""), counter=FieldCounter())
        for each in (told if isinstance(told, list | tuple) else ())
        if isinstance(each, Mapping) and isinstance(each.get("document"), Mapping)
    )


def digest_of(book: WorldBook) -> str:
    """Return the SHA-256 of a book (hex). An import compares it to notice that a book has not changed."""
    value = [book.name, book.extra, [[entry.uid, entry.fields] for entry in book.entries]]
    return sha256(json.dumps(value, sort_keys=True, ensure_ascii=True, default=dict).encode()).hexdigest()


def _world_file(world: ImportedWorld, names: Names) -> dict[str, Any]:
    language = _language(world)
    titles = (world.title, names.char if world.cards else "", *(book.name for book in world.books), world.world_id)
    title = next(" ".join(each.split()) for each in titles if each.strip())
    value = {
        "id": world.world_id,
        "title": title,
        "locale": world.locale or ("zh-CN" if language == "zh" else "en"),
        "activation": world.activation,
        "instruction": _instruction(world, names, _INSTRUCTIONS[language].format(char=names.char, user=names.user)),
        "persona": dict(persona_of(world.cards, user=names.user)) if world.cards else {},
        "user_name": names.user,
        "entities": [
            {
                "id": f"char-{slug_of(card.name)}",
                "name": card.nickname or card.name,
                "aliases": _aliases(card),
                "kind": "person",
            }
            for card in world.cards
        ],
    }
    return {key: kept for key, kept in value.items() if kept not in ({}, [], "")}


def _instruction(world: ImportedWorld, names: Names, usual: str) -> str:
    """Return the instruction of a world. The system prompt of a single card replaces the usual text; several are added
    after it.
    """
    is_single = len(world.cards) == 1
    original = usual if is_single else ""
    own = [instructions_of(card, user=names.user, original=original)[0].strip() for card in world.cards]
    return "\n".join(text for text in ("" if is_single and own[0] else usual, *own) if text)


def _aliases(card: CharacterCard) -> list[str]:
    names = [card.name, card.nickname, *card.name.split()[:1]]
    return list(dict.fromkeys(name for name in names if len(name) > 1))


def _card_lore(card: CharacterCard, names: Names, *, is_guest: bool) -> list[dict[str, Any]]:
    stem = f"{CARD_IDS}{slug_of(card.name)}"
    if is_guest:
        about = {"id": stem, "name": card.name, "category": LoreCategory.AGENT.value, "keys": _aliases(card)}
        text = dump_yaml(dict(persona_of((card,), user=names.user)))
        return [{**about, "content": text, "kind": "person"}] if text.strip() else []
    after = instructions_of(card, user=names.user)[1]
    note = names.fill(card.depth_prompt.text) if card.depth_prompt is not None else ""
    texts = ((f"{stem}-note", "note", note, 60), (f"{stem}-after", "instruction", after, 90))
    return [
        {
            "id": entry_id,
            "name": f"{card.name}: {what}",
            "category": LoreCategory.DIRECTIVE.value,
            "content": text.strip(),
            "constant": True,
            "priority": priority,
        }
        for entry_id, what, text, priority in texts
        if text.strip()
    ]


def _language(world: ImportedWorld) -> str:
    """Return `zh` or `en`: the language of the locale, else of most letters in the texts."""
    if world.locale:
        return "zh" if world.locale.lower().startswith("zh") else "en"
    text = "\n".join(
        (*(f"{card.description}\n{card.first_message}" for card in world.cards), joined_texts(world.books))
    )
    text = text[:20_000]
    chinese = sum("\u4e00" <= char <= "\u9fff" for char in text)
    return "zh" if chinese * 4 > sum(char.isalpha() for char in text) else "en"


def _yaml(value: Any) -> bytes:
    return f"{dump_yaml(value)}\n".encode()


def json_bytes(value: Any) -> bytes:
    """Return a JSON value as a file of a pack: indented, with the keys in their order and a line break at the end."""
    return f"{json.dumps(value, ensure_ascii=False, indent=1)}\n".encode()
