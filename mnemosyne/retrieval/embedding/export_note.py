"""Describes an exported embedding model: the note beside `model.onnx`, and where exports are stored.

Files and JSON only. Must not import a heavy package: it is read before anything is loaded.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from mnemosyne.core.errors import EmbedderUnavailableError

MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
NOTE_FILE = "export.json"
_SMALL_BYTES = 100_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportNote:
    """What the export recorded about the model.

    `model`: the name of the exported model, under which vectors are stored, so that export and model share them; empty
    for an export made elsewhere. `source`: fingerprint of the folder it was made from. `max_tokens`: longer texts are
    cut; None leaves this to the tokenizer. `prompts`: the prefix of a text by purpose (`query`, `document`).
    """

    model: str = ""
    source: str = ""
    max_tokens: int | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> ExportNote:
        """Return the note in a folder, an empty one if there is none; EmbedderUnavailableError when it is broken."""
        file = folder / NOTE_FILE
        if not file.is_file():
            return cls()
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            limit = found.get("max_tokens")
            return cls(
                model=str(found.get("model", "")),
                source=str(found.get("source", "")),
                max_tokens=None if limit is None else int(limit),
                prompts={str(name): str(text) for name, text in found.get("prompts", {}).items()},
            )
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise EmbedderUnavailableError(
                f"{file} cannot be read as the note of an export ({error}). Export the model again."
            ) from error

    def write(self, folder: Path) -> None:
        """Write the note into a folder."""
        text = json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n"
        (folder / NOTE_FILE).write_text(text, encoding="utf-8")


def is_export(folder: Path) -> bool:
    """Return whether a folder holds an exported model."""
    return (folder / MODEL_FILE).is_file() and (folder / TOKENIZER_FILE).is_file()


def cached_export_folder(name: str) -> Path:
    """Return the default folder of a model's export; it need not exist.

    It is below `$XDG_CACHE_HOME/jacquard`, by default `~/.cache/jacquard`.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    plain = "".join(each if each.isalnum() or each in "-_." else "_" for each in Path(name).name)
    return Path(cache) / "jacquard" / "embedders" / (plain or "model")


def fingerprint(folder: Path) -> str:
    """Return a digest of a model's folder: names and sizes of all files, and the contents of the small ones."""
    digest = hashlib.sha256()
    for file in sorted(each for each in folder.rglob("*") if each.is_file()):
        size = file.stat().st_size
        digest.update(f"{file.relative_to(folder).as_posix()}\0{size}\0".encode())
        if size < _SMALL_BYTES:
            digest.update(file.read_bytes())
    return digest.hexdigest()
