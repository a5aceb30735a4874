"""Makes the texts that a prompt shows of character cards: the persona, the greetings and the instructions, with names
filled in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from mnemosyne.formats.cards.fields import ORIGINAL
from mnemosyne.schema.imported_files import CharacterCard
from mnemosyne.world.activation.macros import fill_names

_START = re.compile(r"<START>", re.IGNORECASE)
_SPEAKERS = ("{{char}}", "{{user}}", "{{bot}}", "<char>", "<user>", "<bot>")
_COLONS = (":", "：")


def persona_of(cards: Iterable[CharacterCard], *, user: str) -> Mapping[str, Any]:
    """Return the value of a world's persona that describes the characters of `cards`.

    For one card it is a mapping with `name`, `nickname` (if different), `description`, `personality`, `scenario` and
    `examples`, in this order and without empty texts. `examples` is one text, with an empty line between two dialogues,
    because a list of two would be shown as a value with a description. For several cards it is a mapping with
    `characters`, a list of such mappings. `{{char}}` becomes the nickname of the card, or else its name. `{{user}}`
    becomes `user`, unless `user` is empty.
    """
    personas = [_persona(card, user) for card in cards]
    if len(personas) == 1:
        return personas[0]
    return {"characters": personas} if personas else {}


def greetings_of(card: CharacterCard, *, user: str) -> tuple[str, ...]:
    """Return the first message of a card and its alternate greetings, without empty ones and with the names filled in."""
    texts = (_fill(text, card, user) for text in (card.first_message, *card.alternate_greetings))
    return tuple(text for text in texts if text)


def instructions_of(card: CharacterCard, *, user: str, original: str = "") -> tuple[str, str]:
    """Return (system prompt, instructions after the chat) of a card, with the names filled in. Each is empty if the card
    has none.

    `{{original}}` in the system prompt becomes `original`. In the instructions after the chat it is removed.
    """
    system = _fill(ORIGINAL.sub(lambda _: original, card.system_prompt), card, user)
    return system, _fill(ORIGINAL.sub("", card.post_history_instructions), card, user)


def _persona(card: CharacterCard, user: str) -> Mapping[str, Any]:
    persona: dict[str, Any] = {
        "name": card.name.strip(),
        "nickname": card.nickname.strip() if card.nickname.strip() != card.name.strip() else "",
        "description": _fill(card.description, card, user),
        "personality": _fill(card.personality, card, user),
        "scenario": _fill(card.scenario, card, user),
        "examples": "\n\n".join("\n".join(dialogue) for dialogue in _examples(card, user)),
    }
    return {name: value for name, value in persona.items() if value}


def _examples(card: CharacterCard, user: str) -> list[list[str]]:
    """Return the example dialogues of a card. A line without a speaker belongs to the speech before it."""
    names = (*_SPEAKERS, *(name.strip().lower() for name in (card.name, card.nickname, user) if name.strip()))
    speakers = tuple(f"{name}{colon}" for name in names for colon in _COLONS)
    dialogues = []
    for block in _START.split(card.example_messages):
        said: list[list[str]] = []
        for line in block.strip().splitlines():
            if not said or line.lstrip().lower().startswith(speakers):
                said.append([])
            said[-1].append(line.rstrip())
        filled = [_fill("\n".join(lines), card, user) for lines in said]
        if any(filled):
            dialogues.append([text for text in filled if text])
    return dialogues


def _fill(text: str, card: CharacterCard, user: str) -> str:
    filled = fill_names(text, char=card.nickname.strip() or card.name.strip(), user=user)
    return "\n".join(line.rstrip() for line in filled.split("\n")).strip()
