"""Removes given texts and names from the records that stay after an erasure.

To scrub a record means to cut the erased texts out of it. All stores use this module, so they erase by the same rules. `runs`
defines which texts are found, and `places` lists the fields to scrub. The proof of an erasure uses both modules, too.

A name (an erased id) is removed as a whole word. A name of fewer than four letters is removed only if it is the whole
string. `Scrubber(..., thorough=False)` scrubs the texts of others (their messages, other evidence items). In these, a short
text belongs to its author, so only distinctive texts are removed. The module imports the schema, never a store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar

from mnemosyne.privacy.places import Treatment, treatments
from mnemosyne.privacy.runs import TELLING, WORTH_SEEKING, TextMatcher, is_whole_word
from mnemosyne.schema.erasure import ERASED, Erasure
from mnemosyne.schema.memory import EMPTY, MemoryEntry
from mnemosyne.schema.session import Message, Ref

T = TypeVar("T")


class Scrubber:
    """Removes texts and names from strings, JSON trees and schema values. `count` is the number of removals."""

    def __init__(self, texts: Iterable[str], names: Iterable[str] = (), *, thorough: bool = True) -> None:
        self.count = 0
        texts = tuple(texts)
        self._names = frozenset(names)
        self._matcher = TextMatcher(texts, self._names, least=WORTH_SEEKING if thorough else TELLING)
        self._said = "\n".join(texts).casefold()

    def text(self, text: str, *, names: bool = True) -> str:
        """Return `text` with ERASED in place of every part that must be removed.

        If `names`, names are removed, too.
        """
        spans = [] if self._matcher.seeks_nothing else self._matcher.spans(text, names=names)
        if not spans:
            return text
        self.count += 1
        kept, end = [], 0
        for begin, stop in spans:
            kept += [text[end:begin], ERASED]
            end = stop
        return "".join((*kept, text[end:]))

    def tree(self, tree: Any, word_keys: frozenset[str] = frozenset(), *, own: bool = False) -> Any:
        """Return the JSON `tree` with all its texts and keys scrubbed. Unchanged parts are shared with `tree`.

        Below the keys `word_keys` there are words taken from a message. Words of the erased texts are removed there.
        If `own` (the message itself was erased), all words below these keys are removed.
        """
        if isinstance(tree, str):
            return tree if isinstance(tree, Enum) else self.text(tree)
        if isinstance(tree, Mapping):
            done = {
                self.text(key): self._words(child, own=own)
                if key in word_keys and isinstance(child, str | list | tuple)
                else self.tree(child, word_keys, own=own)
                for key, child in tree.items()
            }
            return tree if _is_same(done, tree) else done
        if isinstance(tree, list | tuple):
            items = [self.tree(child, word_keys, own=own) for child in tree]
            if all(new is old for new, old in zip(items, tree, strict=True)):
                return tree
            return items if isinstance(tree, list) else tuple(items)
        return self.value(tree, own=own) if is_dataclass(tree) else tree

    def _words(self, found: Any, *, own: bool, beside: str = "") -> Any:
        """Return words taken from a message without those of the erased texts, or an empty value (`own`).

        `beside`: a text that stays; its words stay too.
        """
        if isinstance(found, str):
            return "" if own and found else self.text(found)
        left = [] if own else [each for each in found if not isinstance(each, str) or not self._is_said(each, beside)]
        clean = [self.tree(each) for each in left]
        if len(clean) == len(found) and all(new is old for new, old in zip(clean, found, strict=True)):
            return found
        self.count += 1
        return type(found)(clean)

    def _is_said(self, word: str, beside: str) -> bool:
        folded = word.strip().casefold()
        return bool(folded) and _has_word(self._said, folded) and not _has_word(beside.casefold(), folded)

    def value(self, value: T, *, own: bool = False) -> T:
        """Return a schema value with its free texts scrubbed.

        Ids, enums and times stay; references to erased evidence are removed.
        """
        if not is_dataclass(value) or isinstance(value, type):
            return value
        changes: dict[str, Any] = {}
        for name, treatment in treatments(type(value)).items():
            old = getattr(value, name)
            new = old if treatment is Treatment.KEPT else self._field(value, name, treatment, own=own)
            if new is not old:
                changes[name] = new
        return replace(value, **changes) if changes else value

    def _field(self, value: Any, name: str, treatment: Treatment, *, own: bool) -> Any:
        old = getattr(value, name)
        if treatment is Treatment.REFS:
            if name == "refs":
                return without_refs(old, self._names)
            left = tuple(each for each in old if each not in self._names)
            return old if left == old else left
        if treatment is Treatment.WORDS:
            if not isinstance(value, MemoryEntry):
                return self._words(old, own=own)
            # An entry keeps the words that its remaining text has too: nothing would be gained by hiding them.
            return self._words(old, own=False, beside=f"{self.text(value.title)}\n{self.text(value.text)}")
        if name == "uri" and isinstance(old, str):
            # An address may quote a text (a query), but a name in it is part of a place.
            return self.text(old, names=False)
        return self.tree(old, own=own)


def without_refs(refs: tuple[Ref, ...], evidence_ids: frozenset[str]) -> tuple[Ref, ...]:
    """Return `refs` without the references to `evidence_ids`. If there are none, `refs` itself is returned."""
    left = tuple(ref for ref in refs if ref.remote or ref.evidence_id not in evidence_ids)
    return refs if len(left) == len(refs) else left


def erase_message(message: Message) -> Message:
    """Return `message` with only its id, its role and its time; the content becomes ERASED."""
    return replace(message, content=ERASED, author=None, refs=(), extra=EMPTY)


def subject_of(erasure: Erasure) -> tuple[str, str]:
    """Return (kind, hash) for the subject of `erasure`; `kind` is `user`, `session` or `evidence`.

    The hash is the SHA-256 (hex) of kind and ids, so that a person who knows the id can check whether it was erased.

    Raises:
        ValueError: unless `erasure` names exactly one user, one session, or evidence of one session.
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


def _has_word(text: str, word: str) -> bool:
    place = text.find(word)
    while place >= 0:
        if is_whole_word(text, place, len(word)):
            return True
        place = text.find(word, place + 1)
    return False


def _is_same(done: Mapping[str, Any], tree: Mapping[str, Any]) -> bool:
    return len(done) == len(tree) and all(
        new_key is old_key and done[new_key] is tree[old_key] for new_key, old_key in zip(done, tree, strict=True)
    )
