"""Proves an erasure: searches store, vault (the originals of redacted texts) and files for pieces of the erased texts.

The search uses the same rule as the erasure (`privacy.runs`). It has three steps:

1. Every column of the rows and originals of the erased sessions is read.
2. The files of store, index and vault are read byte by byte, because deleted rows, a log or an old table of an index may
   still contain a text.
3. If something was found in files, the rows of all other sessions are read, because another session may have the same text
   in its own right. The reading ends when each found piece is explained.

The cost depends on the erased texts, on one pass over the files (some nanoseconds per byte), and on the number of rows of
other sessions that are read.
"""

from __future__ import annotations

import mmap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from anyio import to_thread

from mnemosyne.core.codec import decode
from mnemosyne.core.errors import UnreadableError
from mnemosyne.privacy.runs import TextMatcher, is_distinctive, plain_form, strings_of, windows_of
from mnemosyne.protocols import OriginalVault, Store
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.erasure import ERASED, PACK_PLACE, StoredRow
from mnemosyne.values import dataclass

MOST_CHARS = 400_000
"""Maximum number of characters of erased texts to search for in files. If there are more, an even sample is searched for."""

_AUDIT_PLACES = ("audit/", "audits/")
_CHUNK_BYTES = 16_777_216
_OVERLAP_BYTES = 4_096
WORD_RUN = 6
_STEM_CHARS = 48


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """Result of the search after an erasure."""

    texts: int = 0
    """Number of texts that were searched for."""
    files: int = 0
    """Number of files that were searched."""
    elsewhere: int = 0
    """Number of texts that are in files because other sessions have them in their own right, whole or in part."""
    places: tuple[str, ...] = ()
    """Rows and originals of the erased sessions that still contain a piece of an erased text (empty: there are none)."""
    found_files: tuple[str, ...] = ()
    """Files that still contain a piece of an erased text (empty: there are none)."""
    mentions: tuple[str, ...] = ()
    """Rows of the erased sessions that still contain the user's id as a word, because others wrote it. This is not a fault."""
    too_short: int = 0
    """Number of texts that are not distinctive enough to be searched for."""
    unsearched: int = 0
    """Number of texts that were not searched for in files, because the texts exceed the limit."""

    @property
    def holds(self) -> bool:
        """Return whether nothing was found."""
        return not self.places and not self.found_files


@dataclass(kw_only=True, slots=True)
class _FileFinds:
    """Finds in files: pieces of the texts, and runs of their stemmed words, each with its files."""

    files: int = 0
    pieces: dict[str, set[str]] = field(default_factory=dict)
    stems: dict[str, set[str]] = field(default_factory=dict)


async def find_places(store: Store, matcher: TextMatcher, sessions: Collection[str] | None) -> tuple[str, ...]:
    """Return the rows of the store in which a text of `matcher` occurs, sorted.

    Only rows of `sessions` count (None: of all sessions). Rows of world packs never count, because they are the
    author's.
    """
    found = set[str]()

    def visit(row: StoredRow) -> bool:
        if not row.place.startswith(PACK_PLACE) and _occurs(matcher, row):
            found.add(row.place)
        return True

    if not matcher.seeks_nothing and (sessions is None or sessions):
        await store.walk_rows(visit, sessions=sessions)
    return tuple(sorted(found))


async def find_originals(vault: OriginalVault, matcher: TextMatcher, sessions: Collection[str]) -> tuple[str, ...]:
    """Return the originals of `sessions` in the vault in which a text of `matcher` occurs, sorted."""
    found = set[str]()

    def visit(row: StoredRow) -> bool:
        if _occurs(matcher, row):
            found.add(row.place)
        return True

    if not matcher.seeks_nothing and sessions:
        await vault.walk_originals(visit, sessions=sessions)
    return tuple(sorted(found))


async def find_rows(store: Store, sessions: Collection[str]) -> tuple[str, ...]:
    """Return all rows of `sessions`, sorted."""
    found = set[str]()

    def visit(row: StoredRow) -> bool:
        found.add(row.place)
        return True

    if sessions:
        await store.walk_rows(visit, sessions=sessions)
    return tuple(sorted(found))


@dataclass(frozen=True, kw_only=True, slots=True)
class FileSearch:
    """Searches folders for texts, and checks whether other sessions of the store and the vault have the found texts too."""

    store: Store
    vault: OriginalVault | None
    folders: Sequence[Path]
    texts: Sequence[str]
    without: Collection[str]
    """Sessions that cannot explain a text in a file, because they were erased."""
    explain: bool = True

    async def run(self) -> Proof:
        """Search the folders, and return a Proof with only the results for files."""
        stems = {text: " ".join(words) for text in self.texts if len(words := word_tokens(text)) >= WORD_RUN}
        found = await to_thread.run_sync(_search_folders, self.folders, self.texts, tuple(stems.values()))
        if not found.pieces and not found.stems:
            return Proof(files=found.files)
        held = _OwnedPieces(found, stems)
        if self.explain:
            await self.store.walk_rows(held.visit, without=self.without, likely=held.matcher.may_occur)
            if self.vault is not None and not held.is_complete():
                await self.vault.walk_originals(held.visit, without=self.without)
        left = {piece: files for piece, files in found.pieces.items() if not held.explains(piece)}
        left |= {run: files for run, files in found.stems.items() if run in held.stems}
        explained = TextMatcher([piece for piece in found.pieces if piece not in left], least=1)
        runs = [run for run in found.stems if run not in left]
        common = [
            text for text in self.texts if explained.occurs(text) or any(run in stems.get(text, "") for run in runs)
        ]
        files = sorted({file for files in left.values() for file in files})
        return Proof(files=found.files, elsewhere=len(common), found_files=tuple(files))


class _OwnedPieces:
    """Pieces found in files that other sessions have. `stems` are runs that are not explained yet."""

    def __init__(self, found: _FileFinds, stems: Mapping[str, str]) -> None:
        self.stems = set(found.stems)
        self._stemmed = stems
        self._wanted = set(found.pieces)
        self._windows = set[str]()
        self._pieces = set[str]()
        self._is_fresh = False
        self._session_id = ""
        self.matcher = self._build_matcher()

    def _build_matcher(self) -> TextMatcher:
        texts = [text for text, stem in self._stemmed.items() if any(run in stem for run in self.stems)]
        return TextMatcher([*self._wanted, *texts], least=1)

    def visit(self, row: StoredRow) -> bool:
        """Look at a row; return whether anything is still unexplained."""
        if row.session_id != self._session_id:
            self._session_id = row.session_id
            if self.is_complete():
                return False
        if not row.place.startswith(_AUDIT_PLACES):
            for body in row.bodies:
                if self.matcher.may_occur(body):
                    # Also in its written form: a find in a file may end with a sign that belongs to JSON.
                    self._keep(self.matcher.pieces(body))
                    for text in _strings(body):
                        self._look(text)
            for word in row.words:
                self._look(word)
        return bool(self._wanted or self.stems)

    def _look(self, text: str) -> None:
        pieces = {*self.matcher.pieces_of(text)}
        self._keep(pieces)
        if pieces and self.stems:
            # A run of stems may also occur unchanged in a text: words that are their own stems.
            words, plain = " ".join(word_tokens(text)), plain_form(text).text
            self.stems = {run for run in self.stems if run not in words and run not in plain}

    def _keep(self, pieces: Iterable[str]) -> None:
        for piece in {each.strip() for each in pieces} - self._pieces:
            self._pieces.add(piece)
            self._wanted.discard(piece)
            self._windows.update(windows_of(piece))
            self._is_fresh = True

    def is_complete(self) -> bool:
        """Return whether everything is explained; later rows are only searched for the rest."""
        if self._is_fresh:
            self._is_fresh = False
            self._wanted = {piece for piece in self._wanted if not self.explains(piece)}
            self.matcher = self._build_matcher()
        return not self._wanted and not self.stems

    def explains(self, piece: str) -> bool:
        """Return whether every run of a piece is in another session."""
        if piece in self._pieces:
            return True
        runs = tuple(windows_of(piece))
        return (bool(runs) and self._windows.issuperset(runs)) or any(piece in each for each in self._pieces)


def _occurs(matcher: TextMatcher, row: StoredRow) -> bool:
    return any(map(matcher.occurs, row.words)) or any(
        matcher.occurs(part) for body in row.bodies for text in _strings(body) for part in text.split(ERASED)
    )


def _strings(body: bytes) -> Iterator[str]:
    try:
        return strings_of(decode(body, object))
    except UnreadableError:
        # Bytes that cannot be decoded are searched raw.
        return iter((body.decode("utf-8", "ignore"),))


def _search_folders(folders: Sequence[Path], texts: Sequence[str], stems: Sequence[str]) -> _FileFinds:
    """Search every file of some folders."""
    found = _FileFinds()
    matcher, stemmed, whole = TextMatcher(texts), TextMatcher(stems), frozenset(stems)
    for file in _list_files(folders):
        found.files += 1
        for data in _read_chunks(file):
            for piece in matcher.pieces(data):
                if piece.strip():
                    found.pieces.setdefault(piece.strip(), set()).add(str(file))
            for run in stemmed.pieces(data):
                # Few words in a row belong to nobody; a row of the index has the whole text, or all that is left of it.
                if len(run) >= _STEM_CHARS or run.strip() in whole:
                    found.stems.setdefault(run.strip(), set()).add(str(file))
    # A run that is also part of a piece is explained with it: words that are their own stems.
    plain = "\n".join(found.pieces)
    found.stems = {run: files for run, files in found.stems.items() if run not in plain}
    return found


def _list_files(folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        if folder.is_file():
            yield folder
        elif folder.is_dir():
            yield from sorted(each for each in folder.rglob("*") if each.is_file() and not each.is_symlink())


def _read_chunks(file: Path) -> Iterator[bytes]:
    """Yield the content of a file in overlapping parts; a file that has gone (an index deletes its old ones) is empty."""
    try:
        if file.stat().st_size == 0:
            return
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for start in range(0, len(data), _CHUNK_BYTES):
                yield data[start : start + _CHUNK_BYTES + _OVERLAP_BYTES]
    except FileNotFoundError:
        return


def searchable(texts: Sequence[str]) -> list[str]:
    """Return the texts that are distinctive enough to be searched for, each once."""
    return [text for text in dict.fromkeys(texts) if is_distinctive(text)]
