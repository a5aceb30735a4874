"""Labelled sets: `corpus.jsonl` and `queries.jsonl`, read and checked before anything runs.

The corpus is read by the importer of mnemosyne, so a set becomes memory in the same way as a host's own export. It must
not import a retriever or a metric.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from evals.errors import DatasetError, SetupError
from mnemosyne import (
    CorpusError,
)
from mnemosyne.formats.corpora.corpus import CORPUS_FILE, Corpus, CorpusDocument, read_corpus

T = TypeVar("T")

QUERIES_FILE = "queries.jsonl"
ABOUT_FILE = "set.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Utterance:
    """Something said before a query; `speaker` may be unknown."""

    speaker: str | None
    text: str

    @property
    def line(self) -> str:
        """The words with their speaker, as a selector sees them."""
        return f"{self.speaker}: {self.text}" if self.speaker else self.text


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledQuery:
    """One query with its labels.

    `history` is what was said before, oldest first. `relevant` maps document ids to grades (1 relevant, 2 mostly about
    it; 0 judged and not relevant). `line` is its place in the file, 1-based. `answer` is the gold answer, if the set has
    one. On world packs, `viewer` is who asks and `forbidden` holds ids that may reach neither candidates nor prompt.
    """

    query_id: str
    line: int
    text: str
    session: str | None
    history: tuple[Utterance, ...]
    relevant: Mapping[str, int]
    category: str
    answer: str | None = None
    viewer: str | None = None
    forbidden: tuple[str, ...] = ()

    @property
    def wanted(self) -> frozenset[str]:
        """The ids that count as relevant: grade 1 and up."""
        return frozenset(document_id for document_id, grade in self.relevant.items() if grade > 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """Documents that some queries search: one session's own and those that belong to all, or only the latter."""

    session: str | None
    documents: tuple[CorpusDocument, ...]
    queries: tuple[LabelledQuery, ...]

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all documents."""
        return frozenset(each.document_id for each in self.documents)


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledSet:
    """A whole set. `about` is what `set.json` says of it (licence, part, source), empty if there is none."""

    name: str
    corpus: Corpus
    queries: tuple[LabelledQuery, ...]
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def licence(self) -> str:
        """The licence as the set states it."""
        return str(self.about.get("licence", "not stated"))

    def describe(self) -> dict[str, str | None]:
        """Return what a report says of its data."""
        told = {name: self.about.get(name) for name in ("part", "source", "commit")}
        return {"name": self.name, "licence": self.licence, **told}

    def pools(self) -> tuple[Pool, ...]:
        """Return the pools that queries search, in the order of the first query of each.

        A query whose session has no documents of its own searches the documents that belong to all, so that they are
        indexed once and not again for each such session.
        """
        known = frozenset(self.corpus.sessions)
        grouped: dict[str | None, list[LabelledQuery]] = {}
        for query in self.queries:
            grouped.setdefault(query.session if query.session in known else None, []).append(query)
        return tuple(
            Pool(session=session, documents=self.corpus.entries_for(session), queries=tuple(queries))
            for session, queries in grouped.items()
        )

    def sample(self, limit: int | None) -> LabelledSet:
        """Return the set with at most `limit` queries, spread evenly over the file so that every part of it stays."""
        count = len(self.queries)
        if limit is None or limit >= count:
            return self
        return replace(self, queries=tuple(self.queries[place * count // limit] for place in range(limit)))


def read_set(
    folder: Path,
    *,
    corpora: Sequence[str] = (CORPUS_FILE,),
    labels: Sequence[str] = ("relevant",),
    by: str = "category",
) -> LabelledSet:
    """Read and check a set; DatasetError at the first fault, with file, line and field.

    `corpora` are file names in the folder whose documents make one corpus; `labels` are the fields of a query whose
    maps, joined, are its labels; `by` is the field that names its category.
    """
    if not folder.is_dir():
        raise DatasetError(f"{folder}: there is no such folder. Name one that holds {CORPUS_FILE} and {QUERIES_FILE}.")
    return LabelledSet(
        name=folder.resolve().name,
        corpus=_read_corpora(folder, corpora),
        queries=read_queries(folder / QUERIES_FILE, labels, by),
        about=_read_about(folder / ABOUT_FILE),
    )


def read_all(folders: Sequence[Path]) -> list[LabelledSet]:
    """Read several sets; SetupError where two have one name, for reports are kept by it."""
    found = [read_set(folder) for folder in folders]
    names = [each.name for each in found]
    for name in names:
        if names.count(name) > 1:
            raise SetupError(f"Two sets are named {name}; give one of the folders another name.")
    return found


def _read_corpora(folder: Path, names: Sequence[str]) -> Corpus:
    try:
        parts = [read_corpus(folder / name) for name in names]
    except CorpusError as error:
        raise DatasetError(str(error)) from error
    origin: dict[str, str] = {}
    for part in parts:
        for document in part.documents:
            first = origin.setdefault(document.document_id, part.path)
            if first != part.path:
                _fail(Path(part.path), document.line, "id", f"{document.document_id!r} is used already in {first}")
    return Corpus(
        path=", ".join(part.path for part in parts),
        documents=tuple(document for part in parts for document in part.documents),
        sessions=tuple(dict.fromkeys(name for part in parts for name in part.sessions)),
    )


def _read_about(file: Path) -> Mapping[str, Any]:
    if not file.is_file():
        return {}
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DatasetError(f"{file}: cannot be read as JSON ({error}). Mend it or take it away.") from error
    if not isinstance(about, dict):
        raise DatasetError(f"{file}: holds {_describe_type(about)}; it must be one JSON object.")
    return about


def read_by_language(folder: Path, languages: Sequence[str], read_line: Callable[..., T], what: str) -> tuple[T, ...]:
    """Return the items of `LANGUAGE.jsonl` of each language, in order; `what` names one in errors.

    DatasetError, with file and line, for a file that cannot be read and for a line that `read_line` does not accept.
    """
    return tuple(
        item
        for language in languages
        for item in read_items(folder / f"{language}.jsonl", partial(read_line, language=language), what)
    )


def read_items(file: Path, read_line: Callable[[Mapping[str, Any]], T], what: str) -> tuple[T, ...]:
    """Return the items of a file of JSON lines, in order; `what` names one in errors.

    DatasetError, with file and line, for a file that cannot be read and for a line that `read_line` does not accept.
    """
    found = []
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{file}: cannot be read ({error}).") from error
    for number, line in enumerate(lines, start=1):
        try:
            found.append(read_line(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DatasetError(f"{file}:{number}: is no {what} ({error!r}).") from error
    return tuple(found)


def read_queries(file: Path, labels: Sequence[str] = ("relevant",), by: str = "category") -> tuple[LabelledQuery, ...]:
    """Read and check a file of queries; DatasetError at the first fault, with file, line and field."""
    if not file.is_file():
        raise DatasetError(f"{file}: there is no such file. Write one query a line, next to {CORPUS_FILE}.")
    queries: list[LabelledQuery] = []
    lines: dict[str, int] = {}
    try:
        with file.open("rb") as stream:
            for number, raw in enumerate(stream, start=1):
                if not raw.strip():
                    continue
                query = _query(file, number, raw, labels, by)
                first = lines.setdefault(query.query_id, number)
                if first != number:
                    _fail(file, number, "id", f"{query.query_id!r} is used already on line {first}; give each its own")
                queries.append(query)
    except OSError as error:
        raise DatasetError(
            f"{file}: cannot be read ({error.strerror or error}). Check the file and its rights."
        ) from error
    if not queries:
        raise DatasetError(f"{file}: holds no query. Write one JSON object a line.")
    return tuple(queries)


def _query(file: Path, number: int, raw: bytes, labels: Sequence[str], by: str) -> LabelledQuery:
    row = _row(file, number, raw)
    text = _text(file, number, row, "query")
    session, category = row.get("session"), row.get(by)
    if session is not None and not isinstance(session, str):
        _fail(file, number, "session", f"is {_describe_type(session)}; it must be text or null")
    if isinstance(category, list | dict):
        _fail(file, number, by, f"is {_describe_type(category)}; it must be one value")
    named = category if isinstance(category, str) else json.dumps(category)
    return LabelledQuery(
        query_id=_text(file, number, row, "id"),
        line=number,
        text=text,
        session=session,
        history=_history(file, number, row.get("history")),
        relevant=_relevant(file, number, row, labels),
        category="" if category is None else named,
        answer=_answer(row.get("answer")),
        viewer=_viewer(file, number, row.get("viewer")),
        forbidden=_forbidden(file, number, row.get("forbidden")),
    )


def _row(file: Path, number: int, raw: bytes) -> dict[str, Any]:
    try:
        row = json.loads(raw.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError as error:
        _fail(file, number, "", f"is not UTF-8 at byte {error.start + 1}; save the file as UTF-8")
    except json.JSONDecodeError as error:
        _fail(file, number, "", f"is not JSON at character {error.pos + 1} ({error.msg}); write one JSON object a line")
    except (RecursionError, ValueError) as error:
        _fail(file, number, "", f"cannot be read as JSON ({error}); flatten or shorten it")
    if not isinstance(row, dict):
        _fail(file, number, "", f"is {_describe_type(row)}; write one JSON object a line")
    return row


def _text(file: Path, number: int, row: Mapping[str, Any], name: str) -> str:
    if name not in row:
        _fail(file, number, name, "is missing; every query needs id, query and relevant")
    value = row[name]
    if not isinstance(value, str):
        _fail(file, number, name, f"is {_describe_type(value)}; it must be text")
    if not value.strip():
        _fail(file, number, name, "is empty; write something or take the line away")
    return value


def _history(file: Path, number: int, value: Any) -> tuple[Utterance, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        _fail(file, number, "history", f'is {_describe_type(value)}; it must be a list of {{"speaker", "text"}}')
    said = []
    for place, item in enumerate(value):
        name = f"history[{place}]"
        if not isinstance(item, dict):
            _fail(file, number, name, f'is {_describe_type(item)}; it must be {{"speaker", "text"}}')
        speaker, text = item.get("speaker"), item.get("text")
        if speaker is not None and not isinstance(speaker, str):
            _fail(file, number, f"{name}.speaker", f"is {_describe_type(speaker)}; it must be text or null")
        if not isinstance(text, str):
            _fail(file, number, f"{name}.text", f"is {_describe_type(text)}; it must be text")
        said.append(Utterance(speaker=speaker, text=text))
    return tuple(said)


def _relevant(file: Path, number: int, row: Mapping[str, Any], labels: Sequence[str]) -> dict[str, int]:
    joined: dict[str, int] = {}
    for name in labels:
        if name not in row:
            _fail(file, number, name, "is missing; every query needs its labels, {} where nothing is relevant")
        value = row[name]
        if not isinstance(value, dict):
            _fail(file, number, name, f"is {_describe_type(value)}; it must map document ids to grades")
        for document_id, grade in value.items():
            if not isinstance(grade, int) or isinstance(grade, bool) or grade < 0:
                _fail(file, number, f"{name}.{document_id}", f"is {grade!r}; a grade is a whole number from 0 up")
            joined[document_id] = max(grade, joined.get(document_id, 0))
    return joined


def _answer(value: Any) -> str | None:
    """Return an answer as text; published sets also have numbers, and other values cannot occur in a prompt."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else None


def _viewer(file: Path, number: int, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        _fail(file, number, "viewer", f"is {_describe_type(value)}; it must be text or null")
    return value


def _forbidden(file: Path, number: int, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        _fail(file, number, "forbidden", "must be a list of document ids")
    return tuple(value)


def _describe_type(value: Any) -> str:
    names = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "a mapping"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def _fail(file: Path, number: int, name: str, what: str) -> NoReturn:
    raise DatasetError(f"{file}:{number}: {name}: {what}" if name else f"{file}:{number}: {what}")
