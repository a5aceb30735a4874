"""Files of trec_eval: runs (the rankings of a system) and qrels (the labels of a set).

A line of a run is `QUERY Q0 DOCUMENT RANK SCORE TAG`, one of qrels is `QUERY 0 DOCUMENT GRADE`; fields are parted by white space.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from evals.errors import DatasetError, SetupError

_RUN_FIELDS = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedDocument:
    """One line of a run."""

    document_id: str
    score: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TrecRun:
    """Rankings by query, best first, and the tag of the system that made them."""

    tag: str
    rankings: Mapping[str, tuple[RankedDocument, ...]]


def read_run(file: Path) -> TrecRun:
    """Read a run. Documents are ordered by score as trec_eval orders them, those with equal scores by their rank.

    Raises:
        DatasetError: at the first line that is none of a run, or names a document twice for a query.
    """
    found: dict[str, dict[str, tuple[float, float]]] = {}
    tag = ""
    for number, line in enumerate(_read_lines(file), start=1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != _RUN_FIELDS:
            raise DatasetError(
                f"{file}:{number}: has {len(fields)} fields; a line of a run has six: QUERY Q0 DOCUMENT RANK SCORE TAG."
            )
        query_id, _, document_id, rank, score, tag = fields
        own = found.setdefault(query_id, {})
        if document_id in own:
            raise DatasetError(f"{file}:{number}: {document_id!r} is twice in the ranking of query {query_id!r}.")
        own[document_id] = (-_read_number(file, number, "score", score), _read_number(file, number, "rank", rank))
    if not found:
        raise DatasetError(f"{file}: holds no ranking. Write lines of QUERY Q0 DOCUMENT RANK SCORE TAG.")
    return TrecRun(
        tag=tag,
        rankings={
            query_id: tuple(
                RankedDocument(document_id=name, score=-own[name][0])
                for name in sorted(own, key=lambda each: own[each])
            )
            for query_id, own in found.items()
        },
    )


def run_lines(report: Mapping[str, Any], tag: str) -> Iterable[str]:
    """Yield the lines of a run from a report. Raises SetupError if an id has white space.

    trec_eval ranks only by score, so scores that do not fall from one document to the next are replaced by places counted from
    the end.
    """
    for row in report["queries"]:
        names, scores = row["retrieved"], row.get("retrieved_scores") or ()
        falls = len(scores) == len(names) and all(one > after for one, after in pairwise(scores))
        shown = scores if falls else range(len(names), 0, -1)
        for place, (name, score) in enumerate(zip(names, shown, strict=True), start=1):
            yield f"{_check_id(row['id'])} Q0 {_check_id(name)} {place} {score:.6f} {tag}"


def qrels_lines(report: Mapping[str, Any]) -> Iterable[str]:
    """Yield the lines of qrels from a report. Raises SetupError if an id has white space."""
    for row in report["queries"]:
        for name, grade in row["relevant"].items():
            yield f"{_check_id(row['id'])} 0 {_check_id(name)} {grade}"


def tag_of(report: Mapping[str, Any]) -> str:
    """Return the tag of a run: retriever and embedder, without white space."""
    config = report["config"]
    return "-".join("".join(str(config[name]).split()) or "none" for name in ("retriever", "embedder"))


def write_lines(file: Path, lines: Iterable[str]) -> None:
    """Write a text file whole. Nothing is written if a line cannot be made."""
    text = "".join(f"{line}\n" for line in lines)
    file.write_text(text, encoding="utf-8", errors="replace")


def _read_lines(file: Path) -> Sequence[str]:
    try:
        return file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DatasetError(f"{file}: is not UTF-8 at byte {error.start + 1}; save the file as UTF-8.") from error
    except OSError as error:
        raise DatasetError(
            f"{file}: cannot be read ({error.strerror or error}). Name a run in the form of trec_eval."
        ) from error


def _read_number(file: Path, number: int, name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DatasetError(f"{file}:{number}: the {name} is {text!r}; it must be a number.")
    return value


def _check_id(name: str) -> str:
    if not name or len(name.split()) != 1 or name != name.strip():
        raise SetupError(
            f"The id {name!r} has white space, which a file of trec_eval cannot hold; give it another one."
        )
    return name
