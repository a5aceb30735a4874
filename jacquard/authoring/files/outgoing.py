"""Exports worlds and sessions of a store as files of other programs: books of world info, character cards, chats.

Each function writes to the file `to`, or, if `to` is None, to standard output.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from anyio import to_thread

from jacquard.wiring.runtime import Runtime
from mnemosyne.core.errors import CorpusError
from mnemosyne.core.json_text import json_text
from mnemosyne.core.masking.controls import escape_json_controls
from mnemosyne.files import write_file
from mnemosyne.formats.books.write import world_info_json
from mnemosyne.formats.cards.write import card_document, card_png_bytes
from mnemosyne.formats.chats.jsonl_messages import HEADER
from mnemosyne.formats.chats.write import chat_header, chat_jsonl
from mnemosyne.formats.safe_files import read_file_bytes
from mnemosyne.formats.worlds.lore import books_of
from mnemosyne.formats.worlds.pack import cards_of
from mnemosyne.protocols import Store
from mnemosyne.schema.imported_files import CharacterCard, WorldBook
from mnemosyne.schema.record import ImportedTurn, TurnRecord
from mnemosyne.schema.session import Message, Role, count_inputs
from mnemosyne.schema.world import WorldPack

PNG = ".png"
"""Suffix of the file of a card that is stored in a picture."""
_PAGE_TURNS = 200


def render_book(world: WorldPack, name: str | None) -> bytes:
    """Return a book of a world as a world info file. `name` may be None if the world has only one book.

    Raises CorpusError if the name is missing or unknown, or if the world has no lore. `to` is the file to write (None:
    standard output).
    """
    books = books_of(world)
    if not books:
        raise CorpusError(f"World {world.world_id!r} has no lore to write.")
    book = _choose(books, [book.name for book in books], name, "book")
    return json_text(world_info_json(book))


def render_card(world: WorldPack, name: str | None, *, is_png: bool = False, picture: bytes | None = None) -> bytes:
    """Return a character of a world as a card with its book: as JSON, or as a PNG with a `picture` (None: a plain one).

    `name` may be None if there is only one character. If the world has no cards, the card is made from its persona.
    Raises CorpusError if the name is missing or unknown, if the world has no character, or if `picture` is not a PNG.
    """
    cards = cards_of(world) or _cards_of_persona(world)
    if not cards:
        raise CorpusError(f"World {world.world_id!r} has no character: its pack has no persona with a name.")
    card = _choose(cards, [card.name for card in cards], name, "character")
    book = _book_of(world, card)
    return card_png_bytes(card, book, picture=picture) if is_png else json_text(card_document(card, book))


async def render_chat(store: Store, session_id: str, *, branch_id: str | None) -> bytes:
    """Return the conversation of a branch as a JSONL chat of SillyTavern. Alternative replies become swipes.

    `branch_id` is the branch (None: the active branch). `to` is the file to write (None: standard output).
    """
    path: list[TurnRecord] = []
    before: int | None = None
    while page := await store.turns(session_id, limit=_PAGE_TURNS, before_depth=before, branch_id=branch_id):
        path = [*page, *path]
        before = page[0].depth
    others = await _find_alternatives(store, session_id, path)
    turns = [
        ImportedTurn(turn_id=turn.turn_id, messages=turn.messages, alternatives=tuple(others.get(turn.turn_id, ())))
        for turn in path
    ]
    return await to_thread.run_sync(_write_turns, turns)


def _write_turns(turns: Sequence[ImportedTurn]) -> bytes:
    return "".join(chat_jsonl(_find_header(turns), turns)).encode("utf-8", "surrogatepass")


def write_book(world: WorldPack, name: str | None, to: Path | None) -> None:
    """Write a book of a world. Raises the errors of `render_book`."""
    _write_json(render_book(world, name), to)


def write_card(world: WorldPack, name: str | None, to: Path | None, image: Path | None) -> None:
    """Write a character of a world as a card: as a PNG if `to` ends with `.png`, else as JSON. `image` is the picture of a PNG.

    Raises the errors of `render_card`. Raises CorpusError too if `image` is given without a PNG as `to`.
    """
    if to is not None and to.suffix.lower() == PNG:
        picture = None if image is None else read_file_bytes(image)
        _write_bytes(render_card(world, name, is_png=True, picture=picture), to)
        return
    if image is not None:
        raise CorpusError(f"A picture goes into a PNG: name a file that ends with {PNG} by --to.")
    _write_json(render_card(world, name), to)


async def write_chat(runtime: Runtime, session_id: str, to: Path | None, *, branch_id: str | None) -> None:
    """Write the conversation of a branch (None: the active one) as a JSONL chat of SillyTavern."""
    data = await render_chat(runtime.store, session_id, branch_id=branch_id)
    if to is None:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    await to_thread.run_sync(_write_bytes, data, to)


def _find_header(turns: Sequence[ImportedTurn]) -> Mapping[str, Any]:
    """Return the first line of the chat's file, or a new one with the names of the speakers."""
    told = [message for turn in turns for message in turn.messages]
    for message in told:
        kept = message.extra.get(HEADER)
        if isinstance(kept, Mapping):
            return kept
    names = {message.role: message.author.id for message in reversed(told) if message.author is not None}
    at = next((message.at for message in told if message.at is not None), datetime.now(UTC))
    return chat_header(names.get(Role.USER, "User"), names.get(Role.ASSISTANT, "Assistant"), at)


async def _find_alternatives(
    store: Store, session_id: str, path: Sequence[TurnRecord]
) -> dict[str, list[tuple[Message, ...]]]:
    """Return alternative replies to the turns of a path: branches of one turn that begin with the same messages."""
    by_parent = {turn.parent_id: turn for turn in path}
    known = {turn.turn_id for turn in path}
    found: dict[str, list[tuple[Message, ...]]] = {}
    for head in await store.branches(session_id):
        if head.turn_id is None or head.turn_id in known:
            continue
        other = await store.turn(session_id, head.turn_id)
        mine = by_parent.get(other.parent_id)
        if mine is not None and _asks_the_same(mine, other):
            found.setdefault(mine.turn_id, []).append(other.messages[count_inputs(other.messages) :])
    return found


def _asks_the_same(mine: TurnRecord, other: TurnRecord) -> bool:
    def said(turn: TurnRecord) -> list[str]:
        return [message.content for message in turn.messages if message.role is Role.USER]

    return said(mine) == said(other)


def _book_of(world: WorldPack, card: CharacterCard) -> WorldBook | None:
    """Return the book of a card: its own, or that of a world that was written without cards."""
    books = {book.name: book for book in books_of(world)}
    own = (card.book.name or card.name) if card.book is not None else ""
    if own:
        return books.get(own)
    return next(iter(books.values()), None) if not world.imported.get("cards") else None


def _cards_of_persona(world: WorldPack) -> tuple[CharacterCard, ...]:
    """Return a card of a pack's persona; none if it has no name."""
    persona: Mapping[str, Any] = world.persona
    name = persona.get("name")
    if not isinstance(name, str) or not name.strip():
        return ()
    others = {key: value for key, value in persona.items() if key not in ("name", "description", "personality")}
    description = [str(persona.get("description") or "")]
    description += [f"{key}: {value}" for key, value in others.items() if isinstance(value, str | int | float)]
    greeting = next((turn.assistant for turn in world.prologue if not turn.user), "")
    return (
        CharacterCard(
            spec="chara_card_v2",
            name=name,
            document={},
            file_name=name,
            description="\n".join(part for part in description if part),
            personality=str(persona.get("personality") or ""),
            first_message=greeting,
            system_prompt=world.instruction,
        ),
    )


def _choose(things: Sequence[Any], names: Sequence[str], name: str | None, what: str) -> Any:
    if name is None and len(things) == 1:
        return things[0]
    if name in names:
        return things[names.index(name)]
    near = difflib.get_close_matches(name, names, n=1) if name is not None else []
    told = (
        f"there is no {what} {name!r}{f'; did you mean {near[0]!r}?' if near else '.'}"
        if name
        else f"there are several {what}s."
    )
    shown = ", ".join(repr(each) for each in names[:12])
    raise CorpusError(
        f"{told[0].upper()}{told[1:]} Give one of these names: {shown}{', …' if len(names) > 12 else ''}."
    )


def _write_json(data: bytes, to: Path | None) -> None:
    if to is None:
        sys.stdout.buffer.write(escape_json_controls(data.decode("utf-8")).encode("utf-8"))
        sys.stdout.flush()
        return
    _write_bytes(data, to)


def _write_bytes(data: bytes, to: Path) -> None:
    try:
        write_file(to, data)
    except OSError as error:
        raise CorpusError(f"{to}: cannot be written ({error.strerror or error}).") from error
