"""Progress of a run, a row a line, so that a stopped run continues.

The journal is next to the report that it will become and names the run it belongs to: the same options on the same set,
by the same release. Any other run begins from scratch. Writing is for a thread, never for an event loop.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evals.dataset import LabelledSet
from evals.errors import SetupError
from evals.reporting.report import Row
from mnemosyne.core import codec
from mnemosyne.core.errors import CodecError

SUFFIX = ".part"


class Journal:
    """The rows of a run in a file; `rows` are those that were there when it was opened, by query id."""

    def __init__(self, file: Path, identity: str) -> None:
        self._file = file
        self._head = json.dumps({"run": identity})
        self.rows = _read(file, self._head)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            rows = b"".join(codec.encode(row) + b"\n" for row in self.rows.values())
            file.write_bytes(self._head.encode() + b"\n" + rows)
        except OSError as error:
            raise SetupError(f"{file}: cannot be written ({error.strerror or error}).") from error

    def add(self, row: Row) -> None:
        """Append a row."""
        with self._file.open("ab") as stream:
            stream.write(codec.encode(row) + b"\n")

    def close(self) -> None:
        """Take the journal away: its report is written."""
        self._file.unlink(missing_ok=True)


def identity_of(labelled: LabelledSet, options: Mapping[str, Any], versions: Mapping[str, Any]) -> str:
    """Return what names a run: its options, the set to the letter, and the versions of what it is made with."""
    digest = hashlib.sha256(json.dumps([dict(options), dict(versions)], sort_keys=True, default=str).encode())
    for document in labelled.corpus.documents:
        digest.update(f"{document.document_id}\0{document.session}\0{document.text}\0".encode("utf-8", "surrogatepass"))
    for query in labelled.queries:
        digest.update(
            codec.encode(
                [query.query_id, query.session, query.text, dict(query.relevant), query.category, query.answer]
            )
        )
    return digest.hexdigest()


def _read(file: Path, head: str) -> dict[str, Row]:
    """Return the rows of a journal of this run; none of another's. A last line that was cut off is left out."""
    rows: dict[str, Row] = {}
    try:
        lines = file.read_bytes().split(b"\n")
    except FileNotFoundError:
        return rows
    except OSError as error:
        raise SetupError(f"{file}: cannot be read ({error.strerror or error}).") from error
    if lines[0] != head.encode():
        return rows
    for line in lines[1:]:
        try:
            row = codec.decode(line, Row)
        except CodecError:
            break
        rows[row.outcome.query_id] = row
    return rows
