"""What the fuzzers call: each takes any bytes, and raises where a promise is broken.

The first byte chooses among the readers or files of a target, the rest is what is read.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path

from hostile_packs import sound_pack, write_files

from filament import StreamParser, judge_ops, parse_reply
from filament.errors import ReplyError
from jacquard.migrate import migrate_document
from mnemosyne import (
    CorpusError,
    MigrationError,
    SchemaValidationError,
    WorldPackError,
    document_from_json,
    document_to_json,
    load_world,
)
from mnemosyne.documents.package_json import package_from_json, package_to_json
from mnemosyne.documents.session_json import document_faults
from mnemosyne.formats.corpora.corpus import read_corpus, to_session
from mnemosyne.formats.recognise import FORMATS, read_imported_file, recognise
from mnemosyne.formats.worlds.pack import ImportedWorld, join_imports, pack_files
from mnemosyne.schema.record import ImportRequest
from mnemosyne.world import load_world_files

PIECES = (1, 2, 3, 7, 64)
STATE = {
    "hero": {"id": "hero", "hp": [5, "tired"], "$meta": {"limits": {"hp": [0, 9]}}},
    "bag": {"_anchor": "bag", "items": []},
}


def fuzz_reply(data: bytes) -> None:
    """A reply is read alike whole and in pieces; nothing but ReplyError comes in strict mode; its ops are judged."""
    if not data:
        return
    text = data[1:].decode("utf-8", "replace")
    size = PIECES[data[0] % len(PIECES)]
    said = text[: data[0]] if data[0] & 1 else ""
    whole = parse_reply(text, user_text=said)
    parser = StreamParser(user_text=said)
    for place in range(0, len(text), size):
        parser.feed(text[place : place + size])
    assert parser.close() == whole, f"whole and in pieces of {size} differ"
    with suppress(ReplyError):
        parse_reply(text, user_text=said, strict=True)
    judged = judge_ops(STATE, whole.ops, lost=whole.lost)
    json.dumps(judged.tree, allow_nan=False)
    whole.content.encode("utf-8")


def fuzz_pack(data: bytes) -> None:
    """A pack with one file replaced is refused with sentences, or is read."""
    if not data:
        return
    files = dict(sound_pack("zh" if data[0] & 1 else "en"))
    name = sorted(files)[(data[0] >> 1) % len(files)]
    with tempfile.TemporaryDirectory(dir=_memory_folder()) as folder:
        pack = write_files(Path(folder), {**files, name: data[1:]})
        faults = _faults_of(pack)
    assert faults is None or (faults and all(fault.strip() for fault in faults))


def _faults_of(pack: Path) -> tuple[str, ...] | None:
    """Return the sentences with which a pack is refused; None for one that is read."""
    try:
        load_world(pack)
    except WorldPackError as error:
        return error.faults
    return None


def fuzz_importers(data: bytes) -> None:
    """A corpus, a session document, a context package and a file of another program are refused with sentences, or survive the way
    out and in again.
    """
    if not data:
        return
    (_read_corpus, _read_document, _read_package, _read_foreign)[data[0] % 4](data[1:])


def _read_foreign(body: bytes) -> None:
    with tempfile.TemporaryDirectory(dir=_memory_folder()) as folder:
        file = Path(folder) / "file"
        file.write_bytes(body)
        try:
            name = recognise(file)
            if name not in FORMATS:
                return
            found = read_imported_file(file, name, ImportRequest())
        except CorpusError:
            return
        made = join_imports(ImportedWorld(world_id="w"), found.cards, found.books)
        load_world_files(pack_files(made))
        for chat in found.chats:
            assert sum(1 for _ in chat.read_turns()) == chat.turn_count


def _read_corpus(body: bytes) -> None:
    with tempfile.TemporaryDirectory(dir=_memory_folder()) as folder:
        file = Path(folder) / "corpus.jsonl"
        file.write_bytes(body)
        try:
            corpus = read_corpus(file)
        except CorpusError:
            return
        for session in islice((*corpus.sessions, None), 3):
            assert corpus.entries_for(session) is not None
        if corpus.sessions:
            with suppress(CorpusError):
                to_session(corpus, corpus.sessions[0], session_id="s")


def _read_document(body: bytes) -> None:
    tree = _json_of(body)
    faults = document_faults(tree)
    try:
        document = document_from_json(tree)
    except SchemaValidationError:
        assert faults
    else:
        written = document_to_json(document)
        assert document_to_json(document_from_json(written)) == written
    if isinstance(tree, dict):
        with suppress(MigrationError, SchemaValidationError):
            migrate_document(tree)


def _read_package(body: bytes) -> None:
    try:
        package, _ = package_from_json(_json_of(body))
    except SchemaValidationError:
        return
    written = package_to_json(package)
    assert package_to_json(package_from_json(written)[0]) == written


def _json_of(body: bytes) -> object:
    try:
        return json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


@lru_cache(maxsize=1)
def _memory_folder() -> str | None:
    """Return a folder that lies in memory, where there is one: a case writes some files."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "reply": fuzz_reply,
    "pack": fuzz_pack,
    "importers": fuzz_importers,
}
