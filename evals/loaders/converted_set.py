"""A labelled set made from the files of another data set, and how it is written: `corpus*.jsonl`, `queries.jsonl`,
`set.json`.

Every loader returns this one value, and none writes files itself. It must not import a loader.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evals.dataset import ABOUT_FILE, QUERIES_FILE
from evals.errors import DatasetError

_LISTED = 12
Progress = Callable[[str, int, int], None]
Line = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvertedSet:
    """Result of a loader: lines by corpus file, lines of queries, and the number of omissions by reason."""

    name: str
    source: str
    licence: str
    corpora: Mapping[str, Sequence[Line]]
    queries: Sequence[Line]
    left_out: Mapping[str, int] = field(default_factory=dict)


def read_text(file: Path) -> str:
    """Return the text of a file with its line ends; DatasetError if it cannot be read or is not UTF-8."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            return stream.read()
    except UnicodeDecodeError as error:
        raise DatasetError(f"{file}: is not UTF-8 at byte {error.start + 1}.") from error
    except OSError as error:
        raise DatasetError(
            f"{file}: cannot be read ({error.strerror or error}). Name the file of the data set."
        ) from error


def read_json(file: Path) -> Any:
    """Return the value of a JSON file; DatasetError when it is none."""
    return parse_json(read_text(file), str(file))


def parse_json(text: str, where: str) -> Any:
    """Return the value of a JSON text; DatasetError, which names the place, when it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{where}: cannot be read as JSON ({error}).") from error


def require(value: Any, name: str, where: str, kind: type) -> Any:
    """Return `value[name]`. Raises DatasetError, which names the place, if it is missing or of another type."""
    if not isinstance(value, Mapping) or name not in value:
        raise DatasetError(f"{where}: {name} is missing; is this a file of that data set?")
    if not isinstance(value[name], kind):
        raise DatasetError(f"{where}: {name} is {type(value[name]).__name__}; it must be {kind.__name__}.")
    return value[name]


def time_of(text: Any, *formats: str) -> str | None:
    """Return the first reading of a time as ISO text, or None."""
    for form in formats:
        try:
            return datetime.strptime(str(text).strip(), form).replace(tzinfo=UTC).isoformat().removesuffix("+00:00")
        except ValueError:
            continue
    return None


def select_sessions(found: ConvertedSet, names: Sequence[str]) -> ConvertedSet:
    """Return a set with only the documents and queries of some sessions, and the documents of all sessions.

    Raises:
        DatasetError: if the set has no session of that name.
    """
    there = {line.get("session") for lines in found.corpora.values() for line in lines}
    if unknown := [name for name in names if name not in there]:
        known = ", ".join(sorted(name for name in there if name)[:_LISTED])
        raise DatasetError(f"{found.name}: there is no session {unknown[0]!r}; it has {known}.")
    kept = {None, *names}
    return replace(
        found,
        corpora={
            name: [line for line in lines if line.get("session") in kept] for name, lines in found.corpora.items()
        },
        queries=[line for line in found.queries if line["session"] in names],
    )


def write_set(found: ConvertedSet, files: Sequence[Path], folder: Path) -> None:
    """Write a set; each file is put in its place whole, `set.json` last. OSError where it cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in {**found.corpora, QUERIES_FILE: found.queries}.items():
        _put(folder / name, (json.dumps(line, ensure_ascii=False) for line in lines))
    about = {
        "name": found.name,
        "licence": found.licence,
        "source": found.source,
        "files": {file.name: _digest(file) for file in files},
        "left_out": dict(found.left_out),
    }
    _put(folder / ABOUT_FILE, [json.dumps(about, ensure_ascii=False, indent=1)])


def _put(file: Path, lines: Iterable[str]) -> None:
    fresh = file.with_name(f"{file.name}.new")
    with fresh.open("w", encoding="utf-8") as stream:
        stream.writelines(f"{line}\n" for line in lines)
    fresh.replace(file)


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
