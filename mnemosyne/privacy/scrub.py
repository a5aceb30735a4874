"""Removes given texts and names from the records that stay, so that an erasure leaves nothing (seed 002 section 13).

All stores use it, so they erase by the same rules. Pure: it imports the schema, never a store.

Three rules say what is removed:
- A long text is removed wherever RUN of its characters occur in a row (SHORT_RUN for Chinese and the like), so that a
  shortened preview, a wrapped line and an XML-escaped copy are removed too.
- A shorter text is removed where it occurs as whole words. One without content of its own ("ok") is left everywhere.
- A name (an erased id) is removed where it occurs as a whole word; one of fewer than four letters, where it is the
  whole text. (Chinese has no word boundaries: there two characters are enough, wherever they occur.) Texts of others
  (their messages, other evidence items) are searched by `Scrubber(..., thorough=False)`: there a short text is their
  own, and only distinctive texts are removed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar
from xml.sax.saxutils import escape, quoteattr

from mnemosyne.schema.erasure import ERASED, Erasure
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.session import Message, Ref

T = TypeVar("T")

RUN = 24
SHORT_RUN = 10
WORTH_SEEKING = 3
TELLING = 12
_CJK_WEIGHT = 3
_KEY = 2
_KEPT = frozenset(("scope", "schema_version", "depends_on", "hash", "content_hash", "locale", "uri"))


class Scrubber:
    """Removes texts and names from strings, JSON trees and schema values, and counts the removals (`count`)."""

    def __init__(self, texts: Iterable[str], names: Iterable[str] = (), *, thorough: bool = True) -> None:
        self.count = 0
        self._runs: set[str] = set()
        self._short_runs: set[str] = set()
        self._needles: dict[str, list[str]] = {}
        self._names = frozenset(names)
        for name in self._names:
            if len(name) >= _KEY and weight(name) > WORTH_SEEKING:
                self._needles.setdefault(name[:_KEY], []).append(name)
        least = WORTH_SEEKING if thorough else TELLING
        for text in dict.fromkeys(text.strip() for text in texts):
            if weight(text) >= least:
                self._seek(text)
        for found in self._needles.values():
            found.sort(key=len, reverse=True)

    def _seek(self, text: str) -> None:
        for form in spellings(text):
            if len(form) >= RUN:
                self._runs.update(_windows(form, RUN))
            elif len(form) >= _KEY:
                self._needles.setdefault(form[:_KEY], []).append(form)
            if len(form) > SHORT_RUN:
                self._short_runs.update(run for run in _windows(form, SHORT_RUN) if _is_dense(run))

    def text(self, text: str) -> str:
        """Return `text` with ERASED in place of everything that must be removed."""
        if text in self._names:
            self.count += 1
            return ERASED
        spans = list(self._spans(text))
        if not spans:
            return text
        self.count += 1
        kept, end = [], 0
        for begin, stop in spans:
            kept += [text[end:begin], ERASED]
            end = stop
        return "".join((*kept, text[end:]))

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the half-open spans to remove, in order, adjacent runs joined."""
        begin, stop = 0, 0
        for place in range(len(text) - _KEY + 1):
            reach = self._reach(text, place)
            if reach == 0:
                continue
            if place > stop:
                if stop:
                    yield begin, stop
                begin = place
            stop = max(stop, place + reach)
        if stop:
            yield begin, stop

    def _reach(self, text: str, place: int) -> int:
        """Return how many characters from index `place` on must be removed."""
        if text[place : place + RUN] in self._runs:
            return RUN
        for needle in self._needles.get(text[place : place + _KEY], ()):
            if text.startswith(needle, place) and _is_whole(text, place, len(needle)):
                return len(needle)
        return SHORT_RUN if text[place : place + SHORT_RUN] in self._short_runs else 0

    def tree(self, tree: Any) -> Any:
        """Return a JSON tree with all its texts and keys scrubbed; unchanged parts are shared."""
        if isinstance(tree, str):
            return tree if isinstance(tree, Enum) else self.text(tree)
        if isinstance(tree, Mapping):
            done = {self.text(key): self.tree(child) for key, child in tree.items()}
            return tree if _is_same(done, tree) else done
        if isinstance(tree, list | tuple):
            items = [self.tree(child) for child in tree]
            if all(new is old for new, old in zip(items, tree, strict=True)):
                return tree
            return items if isinstance(tree, list) else tuple(items)
        return tree

    def value(self, value: T) -> T:
        """Return a schema value with its free texts scrubbed; its ids, enums and times stay, refs to erased evidence
        are removed.
        """
        if not is_dataclass(value) or isinstance(value, type):
            return value
        changes: dict[str, Any] = {}
        for field in fields(value):
            old = getattr(value, field.name)
            new = self._field(field.name, old)
            if new is not old:
                changes[field.name] = new
        return replace(value, **changes) if changes else value

    def _field(self, name: str, old: Any) -> Any:
        if name == "refs":
            return without_refs(old, self._names)
        if name == "result_evidence_ids":
            left = tuple(each for each in old if each not in self._names)
            return old if left == old else left
        if name in _KEPT or name.endswith("_id"):
            return old
        if isinstance(old, tuple) and any(is_dataclass(each) for each in old):
            new = tuple(self.value(each) for each in old)
            return old if all(a is b for a, b in zip(new, old, strict=True)) else new
        if is_dataclass(old):
            return self.value(old)
        return self.tree(old)


def weight(text: str) -> int:
    """Return the weight of a text: the number of its letters and digits, each Chinese character counted as three."""
    return sum(_CJK_WEIGHT if _is_cjk(char) else 1 for char in text if char.isalnum())


def is_distinctive(text: str) -> bool:
    """Return whether a text is distinctive enough to be searched for in the texts of others too."""
    return weight(text) >= TELLING


def spellings(text: str) -> tuple[str, ...]:
    """Return the forms in which a text may occur in a prompt: as it is, and XML-escaped as content and as attribute."""
    return tuple(dict.fromkeys((text, escape(text), quoteattr(text)[1:-1])))


def occurs_in(text: str, where: str) -> bool:
    """Return whether a text occurs in another, in one of its spellings; one that is not distinctive only as whole words."""
    return _holds_any(_forms_of((text,)), where)


def occurs_in_tree(texts: Sequence[str], tree: Any) -> bool:
    """Return whether one of the texts occurs in a value or a key of a JSON tree."""
    return _tree_holds_any(_forms_of(texts), tree)


_Forms = Sequence[tuple[str, bool]]
"""Spellings, each with whether it counts within a word too."""


def _forms_of(texts: Sequence[str]) -> _Forms:
    """Return the spellings of the texts, made once for all strings that are searched: an erasure searches millions."""
    return [(form, is_distinctive(text)) for text in texts for form in spellings(text) if form]


def _holds_any(forms: _Forms, where: str) -> bool:
    for form, within_words in forms:
        place = where.find(form)
        while place >= 0:
            if within_words or _is_whole(where, place, len(form)):
                return True
            place = where.find(form, place + 1)
    return False


def _tree_holds_any(forms: _Forms, tree: Any) -> bool:
    if isinstance(tree, str):
        return _holds_any(forms, tree)
    if isinstance(tree, Mapping):
        return any(_tree_holds_any(forms, key) or _tree_holds_any(forms, child) for key, child in tree.items())
    return isinstance(tree, list | tuple) and any(_tree_holds_any(forms, child) for child in tree)


def without_refs(refs: tuple[Ref, ...], evidence_ids: frozenset[str]) -> tuple[Ref, ...]:
    """Return `refs` without those to these evidence ids; the same tuple if there are none."""
    left = tuple(ref for ref in refs if ref.remote or ref.evidence_id not in evidence_ids)
    return refs if len(left) == len(refs) else left


def erase_message(message: Message) -> Message:
    """Return a message with only its role, id and time."""
    return replace(message, content=ERASED, author=None, refs=(), extra=EMPTY)


def subject_of(erasure: Erasure) -> tuple[str, str]:
    """Return the kind (`user`, `session`, `evidence`) and the hash of an erasure's subject; ValueError unless it names
    exactly one.

    The hash is the SHA-256 (hex) of kind and ids, so that whoever knows the id can check whether it was erased.
    """
    if erasure.evidence_ids:
        if erasure.session_id is None or erasure.user_id is not None:
            raise ValueError("An erasure of evidence names the session and the evidence ids, and no user.")
        kind, ids = "evidence", (erasure.session_id, *sorted(set(erasure.evidence_ids)))
    elif (erasure.session_id is None) == (erasure.user_id is None):
        raise ValueError("An erasure names exactly one of a user, a session, or evidence ids in a session.")
    elif erasure.session_id is not None:
        kind, ids = "session", (erasure.session_id,)
    else:
        kind, ids = "user", (str(erasure.user_id),)
    subject = "\0".join((kind, *ids))
    return kind, hashlib.sha256(subject.encode("utf-8", "surrogatepass")).hexdigest()


def _windows(text: str, size: int) -> Iterator[str]:
    return (text[place : place + size] for place in range(len(text) - size + 1))


def _is_dense(run: str) -> bool:
    return sum(map(_is_cjk, run)) >= SHORT_RUN - 2


def _is_cjk(char: str) -> bool:
    return "\u2e80" <= char <= "\u9fff" or "\uac00" <= char <= "\ud7af" or "\U00020000" <= char <= "\U0003ffff"


def _is_whole(text: str, place: int, size: int) -> bool:
    """Return whether `text[place : place + size]` begins and ends at word boundaries."""
    end = place + size
    before = place > 0 and _is_word_character(text[place - 1]) and _is_word_character(text[place])
    after = end < len(text) and _is_word_character(text[end - 1]) and _is_word_character(text[end])
    return not (before or after)


def _is_word_character(char: str) -> bool:
    return char.isalnum() and not _is_cjk(char)


def _is_same(done: Mapping[str, Any], tree: Mapping[str, Any]) -> bool:
    return len(done) == len(tree) and all(
        new_key is old_key and done[new_key] is tree[old_key] for new_key, old_key in zip(done, tree, strict=True)
    )
