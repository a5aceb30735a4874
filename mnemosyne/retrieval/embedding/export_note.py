"""What an exported embedding model is: the note beside `model.onnx`, and where exports are kept.

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
    """What the export knew of the model.

    `model`: its name, under which its vectors are kept, so that they are those of the model it was made from; empty for an
    export made elsewhere. `source`: fingerprint of the folder it was made from. `max_tokens`: longer texts are cut; None
    leaves it to the tokenizer. `prompts`: what stands before a text, by purpose (`query`, `document`).
    """

    model: str = ""
    source: str = ""
    max_tokens: int | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> ExportNote:
        """Read the note of a folder, an empty one where there is none; EmbedderUnavailableError when it is broken."""
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
        """Write the note."""
        text = json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n"
        (folder / NOTE_FILE).write_text(text, encoding="utf-8")


def is_export(folder: Path) -> bool:
    """Say whether a folder holds an exported model."""
    return (folder / MODEL_FILE).is_file() and (folder / TOKENIZER_FILE).is_file()


def cached_export_folder(name: str) -> Path:
    """Return the folder in which the export of a model is kept if no other is named; it need not be there.

    It lies below `$XDG_CACHE_HOME/jacquard`, by default `~/.cache/jacquard`.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    plain = "".join(each if each.isalnum() or each in "-_." else "_" for each in Path(name).name)
    return Path(cache) / "jacquard" / "embedders" / (plain or "model")


def fingerprint(folder: Path) -> str:
    """Return a digest of a model's folder: names and sizes of all its files, and what the small ones hold."""
    digest = hashlib.sha256()
    for file in sorted(each for each in folder.rglob("*") if each.is_file()):
        size = file.stat().st_size
        digest.update(f"{file.relative_to(folder).as_posix()}\0{size}\0".encode())
        if size < _SMALL_BYTES:
            digest.update(file.read_bytes())
    return digest.hexdigest()
