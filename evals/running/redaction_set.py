"""A run of redaction on labelled texts: every text is redacted, and what was left of the marked part is looked at.

The set is a folder with one file of JSON lines a language; `sets/redaction/README.md` says what its fields mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from evals.dataset import read_by_language
from mnemosyne import Redactor

LANGUAGES = ("en", "zh")
HALVES = ("tune", "held_out", "later", "fresh", "unseen", "last", "forms")
LISTED = ("tune", "later", "fresh", "unseen", "forms")
"""Halves whose misses are listed: the rules have been written with them in view."""
KINDS = ("sensitive", "harmless")
UNSTRUCTURED = ("address", "name", "password")
"""Classes whose form says little: the others are counted as `structured`."""

_BEGIN, _END, _SEAM = "⟦", "⟧", "[redacted:"
_MOST_BESIDE = 2
"""Letters and digits next to the marked part that may go with it: a title, an area code in brackets."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledText:
    """One line of the set. The sensitive part is `text[begin:end]`; both are 0 if the text is harmless."""

    text_id: str
    language: str
    kind: str
    name: str
    half: str
    text: str
    begin: int = 0
    end: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class RedactedText:
    """A text after redaction. `right`: the sensitive part is gone, or a harmless text has not changed. `beside`: letters
    and digits around the sensitive part that went with it.
    """

    labelled: LabelledText
    redacted: str
    right: bool
    beside: int = 0


def read_texts(folder: Path) -> tuple[LabelledText, ...]:
    """Read the set; DatasetError, with file and line, for a line that is none."""
    return read_by_language(folder, LANGUAGES, _read_line, "labelled text")


def _read_line(value: Mapping[str, Any], language: str) -> LabelledText:
    text = "~".join(part.replace("~", "") for part in value["text"].split("~~"))
    begin, end = 0, 0
    if value["kind"] == "sensitive":
        begin, end = text.index(_BEGIN), text.index(_END) - len(_BEGIN)
        text = text.replace(_BEGIN, "").replace(_END, "")
    labelled = LabelledText(
        text_id=value["id"],
        language=language,
        kind=value["kind"],
        name=value["class"],
        half=value["half"],
        text=text,
        begin=begin,
        end=end,
    )
    if labelled.kind not in KINDS or labelled.half not in HALVES:
        raise ValueError(f"kind {labelled.kind!r} or half {labelled.half!r} is unknown")
    return labelled


async def run_redaction(
    folder: Path, redactor: Redactor, progress: Callable[[str, int, int], None] = lambda what, done, total: None
) -> tuple[RedactedText, ...]:
    """Redact every text of the set, in its order. DatasetError; RedactionError from the redactor."""
    texts = read_texts(folder)
    rows = []
    for count, each in enumerate(texts, start=1):
        rows.append(_look(each, (await redactor.redact(each.text)).redacted_text))
        progress("texts", count, len(texts))
    return tuple(rows)


def _look(labelled: LabelledText, redacted: str) -> RedactedText:
    if labelled.kind == "harmless":
        return RedactedText(labelled=labelled, redacted=redacted, right=redacted == labelled.text)
    kept = _places_kept(labelled.text, redacted)
    marked = range(labelled.begin, labelled.end)
    words = [place for place, char in enumerate(labelled.text) if char.isalnum()]
    return RedactedText(
        labelled=labelled,
        redacted=redacted,
        right=not any(place in kept for place in words if place in marked),
        beside=sum(place not in kept for place in words if place not in marked),
    )


def _places_kept(text: str, redacted: str) -> frozenset[int]:
    """Return the places of a text that are left after redaction. A piece that occurs twice counts at its first place, except
    at the end of the text.
    """
    first, *others = redacted.split(_SEAM)
    kept = set(range(len(first)))
    place = len(first)
    pieces = [piece.partition("]")[2] for piece in others]
    for number, piece in enumerate(pieces, start=1):
        begin = len(text) - len(piece) if number == len(pieces) else text.find(piece, place + 1)
        kept.update(range(begin, begin + len(piece)))
        place = begin + len(piece)
    return frozenset(kept)


def redaction_json(rows: Sequence[RedactedText]) -> dict[str, Any]:
    """Return counts by half, and the misses of the halves that rules are written from.

    Counts are of all, of structured classes, and of each class, for both languages and each of them. Misses of other
    halves are never listed, so that nobody writes rules for them. A count is `{count, right, share, beside}`: `share`
    is recall of sensitive texts, and of harmless ones the share that was touched; `beside` counts sensitive texts of
    which more went than their mark and two signs.
    """
    report: dict[str, Any] = {"texts": len(rows), "halves": {}}
    for half in HALVES:
        own = [row for row in rows if row.labelled.half == half]
        if own:
            report["halves"][half] = {
                kind: _count_kind([row for row in own if row.labelled.kind == kind]) for kind in KINDS
            }
    missed = [row for row in rows if row.labelled.half in LISTED and not row.right]
    report["misses"] = [
        {"id": row.labelled.text_id, "text": row.labelled.text, "redacted": row.redacted} for row in missed
    ]
    return report


def _count_kind(rows: Sequence[RedactedText]) -> dict[str, Any]:
    groups = {"all": rows}
    if rows and rows[0].labelled.kind == "sensitive":
        groups["structured"] = [row for row in rows if row.labelled.name not in UNSTRUCTURED]
    groups |= {
        name: [row for row in rows if row.labelled.name == name] for name in sorted({row.labelled.name for row in rows})
    }
    return {
        name: {"both": _count(own)}
        | {language: _count([row for row in own if row.labelled.language == language]) for language in LANGUAGES}
        for name, own in groups.items()
    }


def _count(rows: Iterable[RedactedText]) -> dict[str, float | int]:
    own = list(rows)
    right = sum(row.right for row in own)
    told = right if own and own[0].labelled.kind == "sensitive" else len(own) - right
    return {
        "count": len(own),
        "right": right,
        "share": round(told / len(own), 4) if own else 0.0,
        "beside": sum(row.beside > _MOST_BESIDE for row in own),
    }


def print_redaction(report: Mapping[str, Any], console: Console, *, misses: bool = False) -> None:
    """Print two tables a half: what was found of sensitive texts, and how many harmless ones were touched."""
    for half, found in report["halves"].items():
        table = Table("sensitive", "found", *LANGUAGES, "more taken than marked", title=f"redaction, half {half}")
        for name, counts in found["sensitive"].items():
            table.add_row(
                name, *(_recall(counts[each]) for each in ("both", *LANGUAGES)), str(counts["both"]["beside"])
            )
        console.print(table)
        table = Table("harmless", "touched", *LANGUAGES, title=f"redaction, half {half}")
        for name, counts in found["harmless"].items():
            table.add_row(name, *(_touched(counts[each]) for each in ("both", *LANGUAGES)))
        console.print(table)
    for miss in report["misses"] if misses else ():
        console.print(Text(f"{miss['id']}: {miss['text']!r} became {miss['redacted']!r}"))


def _recall(count: Mapping[str, float | int]) -> str:
    return f"{100 * count['share']:.1f} % ({count['right']}/{count['count']})" if count["count"] else "-"


def _touched(count: Mapping[str, float | int]) -> str:
    return (
        f"{100 * count['share']:.1f} % ({count['count'] - count['right']}/{count['count']})" if count["count"] else "-"
    )
