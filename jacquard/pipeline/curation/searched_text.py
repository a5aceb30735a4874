"""Removes from an input what is not searched for: remarks outside of the story, and labels that say who speaks.

Pure, and linear in the length of the input.
"""

from __future__ import annotations

import re
from itertools import chain

from jacquard.core.names import normalise
from mnemosyne.chains.asides import remove_asides
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.world import WorldPack

# All blanks are counted: two runs of any length beside each other would take quadratic time.
_LABEL = re.compile(
    r"^[ \t]{0,8}(?P<name>[^\W\d_][^\n()（）:：,，。.!?！？\"“”「」]{0,23}?)[ \t]{0,4}"
    r"(?P<role>[(（][^\n()（）:：]{1,24}[)）])?[ \t]{0,4}[:：][ \t]{0,4}",
    re.MULTILINE,
)
_REMINDER = re.compile(
    r"(?:我|你|您|咱们?|我们|你们)?(?:还|是否|应该|总|都)?(?:记得|记不记得|想得起来?)(?:吗|吧|不)?|来着"
    r"|\b(?:do |did |don't )?(?:you|i|we) (?:still |even )?(?:remember|recall)(?: that| when| how)?\b",
    re.IGNORECASE,
)
"""Words that say only that something is to be called to mind; they are in every memory of a memory."""
_MARKS = " \t\n,.;:!，。；：！"


def remove_speaker_labels(user_message: str, window: SessionWindow, world: WorldPack) -> str:
    """Return the input without the labels at the beginning of its lines that say who speaks: `Wren:` or `Joss (Wren):`, where
    one of the two is the player, an entity of the world, or one who has spoken in the session.
    """
    if not _LABEL.search(user_message):
        return user_message
    authors = (each.message.author.id for each in window.messages if each.message.author is not None)
    entities = (name for each in world.entities for name in (each.name, *each.aliases))
    known = {normalise(name) for name in chain((world.user_name,), authors, entities)} - {""}

    def drop(found: re.Match[str]) -> str:
        parts = (normalise(found["name"]), normalise((found["role"] or "").strip("()（）")))
        return found.group() if known.isdisjoint(parts) else ""

    return _LABEL.sub(drop, user_message)


def find_searched_text(user_message: str, window: SessionWindow, world: WorldPack) -> str:
    """Return the part of an input that is searched for; the whole of it where nothing else is left."""
    left = remove_asides(remove_speaker_labels(user_message, window, world)).strip()
    if not _REMINDER.search(left):
        return left or user_message
    return _REMINDER.sub(" ", left).strip(_MARKS) or left
