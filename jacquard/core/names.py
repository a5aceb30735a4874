"""Finds names and words in an input text, in scripts with and without spaces between words.

The planner and Stream A (the part of a prompt made by rules) both use this module, so that they read an input in the
same way. Texts are compared in a normal form: NFKC, case folded, each run of white space as one blank. An English
phrase is found only as whole words; a Chinese, Japanese, Korean or Thai phrase is found anywhere. This rule applies to
each end of a phrase separately, because a phrase may mix scripts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from mnemosyne.core.normal_forms import normal_form
from mnemosyne.schema.world import Entity
from mnemosyne.values import dataclass

NAME_CHARS = 200
"""Maximum length of a name or phrase. Longer names are ignored, because the time of a search would grow with their length."""

_UNSPACED = (
    (0x0E00, 0x0EFF),
    (0x1100, 0x11FF),
    (0x2E80, 0x2FDF),
    (0x3005, 0x30FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7AF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)


def normalise(text: str) -> str:
    """Return the text in its form for comparison: NFKC, case folded, each run of white space as one blank."""
    return " ".join(normal_form("NFKC", text).casefold().split())


_normalised_phrase = lru_cache(maxsize=8192)(normalise)


def is_unspaced(character: str) -> bool:
    """Return whether a character belongs to a script without spaces between words."""
    code = ord(character)
    return code >= 0x0E00 and any(low <= code <= high for low, high in _UNSPACED)


def _joins_words(character: str) -> bool:
    """Return whether a word continues through this character."""
    return (character.isalnum() or character == "_") and not is_unspaced(character)


def stands_alone(text: str, start: int, end: int) -> bool:
    """Return whether `text[start:end]` begins and ends at word boundaries. In a script without spaces, every place is a
    word boundary.
    """
    if start > 0 and _joins_words(text[start - 1]) and _joins_words(text[start]):
        return False
    return not (end < len(text) and _joins_words(text[end]) and _joins_words(text[end - 1]))


def mentions(normalised_text: str, phrase: str) -> bool:
    """Return whether a normalised text contains `phrase`; False if `phrase` is empty."""
    return next(find_mentions(normalised_text, phrase), None) is not None


def find_mentions(normalised_text: str, phrase: str) -> Iterator[int]:
    """Yield the index of each occurrence of `phrase` in a normalised text. A phrase of more than NAME_CHARS characters
    is never found.
    """
    wanted = _normalised_phrase(phrase) if len(phrase) <= NAME_CHARS else ""
    start = normalised_text.find(wanted) if wanted else -1
    while start >= 0:
        if stands_alone(normalised_text, start, start + len(wanted)):
            yield start
        start = normalised_text.find(wanted, start + 1)


def count_mentions(normalised_text: str, phrases: Iterable[str]) -> int:
    """Return how many of `phrases` occur in a normalised text."""
    return sum(mentions(normalised_text, phrase) for phrase in phrases)


@dataclass(frozen=True, kw_only=True, slots=True)
class NameMatch:
    """Name found in an input.

    `phrase` is the name in normal form and `start` is its place in the normalised input. `entity_ids` contains several ids if
    several entities have this name.
    """

    phrase: str
    start: int
    entity_ids: tuple[str, ...]


class NameDictionary:
    """Names and aliases of entities (persons, places, things), prepared for searches in texts. `names` maps the id of
    each entity to its name.

    Names above NAME_CHARS characters are left out. A search compares each place of the text only with names that have the same
    first character, so the time of a search depends on the length of the text and hardly on the number of names.
    """

    def __init__(self, entities: Sequence[Entity]) -> None:
        self.names = {entity.entity_id: entity.name for entity in entities}
        owners: dict[str, dict[str, bool]] = {}
        for entity in entities:
            for place, name in enumerate((entity.name, *entity.aliases)):
                if len(name) <= NAME_CHARS and (phrase := normalise(name)):
                    by_entity = owners.setdefault(phrase, {})
                    by_entity[entity.entity_id] = by_entity.get(entity.entity_id, False) or place == 0
        self._owners = {phrase: _choose_entities(by_entity) for phrase, by_entity in owners.items()}
        lengths: dict[str, set[int]] = {}
        for phrase in self._owners:
            lengths.setdefault(phrase[0], set()).add(len(phrase))
        self._lengths = {first: tuple(sorted(sizes, reverse=True)) for first, sizes in lengths.items()}

    def __len__(self) -> int:
        return len(self._owners)

    def find_owner(self, name: str) -> str:
        """Return the id of the entity whose id, name or alias is `name`. If no entity or several entities have this
        name, return `name` unchanged.
        """
        ids = (name,) if name in self.names else self._owners.get(normalise(name), ())
        return ids[0] if len(ids) == 1 else name

    def find(self, text: str) -> tuple[NameMatch, ...]:
        """Return the names found in `text`, in order of appearance. If several names begin at the same place, the
        longest one is returned.

        The matches do not overlap.
        """
        normalised = normalise(text)
        found: list[NameMatch] = []
        place = 0
        while place < len(normalised):
            phrase = self._find_longest(normalised, place)
            if phrase is None:
                place += 1
            else:
                found.append(NameMatch(phrase=phrase, start=place, entity_ids=self._owners[phrase]))
                place += len(phrase)
        return tuple(found)

    def _find_longest(self, text: str, start: int) -> str | None:
        for size in self._lengths.get(text[start], ()):
            phrase = text[start : start + size]
            if phrase in self._owners and stands_alone(text, start, start + size):
                return phrase
        return None


def _choose_entities(by_entity: dict[str, bool]) -> tuple[str, ...]:
    """Return the entities that have this as their own name, if any, else those that have it as an alias."""
    own = [entity_id for entity_id, canonical in by_entity.items() if canonical]
    return (own[0],) if len(own) == 1 else tuple(by_entity)
