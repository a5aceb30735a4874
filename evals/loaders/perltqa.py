"""PerLTQA, and data of its form: a memory file (people with profile, relations, events, dialogues) and a file of questions.

Each person is a session. Fields of the profile and relations are lore, events events, dialogues narratives (a question names
a whole dialogue). A question's `Reference Memory` names what it needs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.errors import DatasetError
from evals.loaders.converted_set import ConvertedSet, Line, Progress, read_json, time_of

SOURCE = "github.com/Elvin-Yiming-Du/PerLTQA, Dataset"
LICENCE = "as the data set states (see its LICENSE.txt)"
_REFERENCE = re.compile(r"\d+(?:_\d+)+(?:#\d+)?")
_TIMES = ("%B %d, %Y", "%Y-%m-%d %H:%M", "%Y-%m-%d", "%B %Y", "%Y")
_PARTS = ("profile", "social_relationship", "events", "dialogues")


def convert(files: Sequence[Path], progress: Progress) -> ConvertedSet:
    """Return the set of a memory file and a file of questions, in this order."""
    memory_file, question_file = files
    people, asked = _people(memory_file), _read_questions(question_file)
    documents: list[Line] = []
    queries: list[Line] = []
    left_out: Counter[str] = Counter()
    for count, (name, memory) in enumerate(people.items(), start=1):
        own = list(_documents(name, memory))
        documents += own
        known = {line["id"] for line in own}
        for number, (part, key, question) in enumerate(_questions(asked.get(name) or {})):
            relevant = [each for each in _relevant(name, part, key, question) if each in known]
            text = question.get("Question")
            if not relevant or not isinstance(text, str) or not text.strip():
                left_out["questions without known memory"] += 1
                continue
            queries.append(
                {
                    "id": f"{name}:q{number}",
                    "session": name,
                    "query": text,
                    "relevant": dict.fromkeys(relevant, 1),
                    "category": part,
                    "answer": question.get("Answer"),
                }
            )
        progress("people", count, len(people))
    left_out["people without memory"] = len(set(asked) - set(people))
    return ConvertedSet(
        name=memory_file.stem,
        source=SOURCE,
        licence=LICENCE,
        corpora={"corpus.jsonl": documents},
        queries=queries,
        left_out={reason: many for reason, many in left_out.items() if many},
    )


def _people(file: Path) -> dict[str, Mapping[str, Any]]:
    value = read_json(file)
    if isinstance(value, list):
        value = {each["profile"]["Protagonist"]: each for each in value if "Protagonist" in (each.get("profile") or {})}
    if not isinstance(value, dict) or not any(isinstance(each, dict) and "profile" in each for each in value.values()):
        raise DatasetError(f"{file}: holds no people with a `profile`; name the memory file first, then the questions.")
    return value


def _read_questions(file: Path) -> dict[str, Mapping[str, Any]]:
    value = read_json(file)
    if isinstance(value, dict):
        return value
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise DatasetError(f"{file}: holds no questions by person; name the memory file first, then the questions.")
    return {name: parts for each in value for name, parts in each.items()}


def _documents(name: str, memory: Mapping[str, Any]) -> Iterator[Line]:
    for field, value in (memory.get("profile") or {}).items():
        yield _line(name, field, "lore", f"{name}, {field}: {value}", {"part": "profile"})
    for key, each in (memory.get("social_relationship") or {}).items():
        who, what = each.get("Supporting Characters"), each.get("Relationship")
        text = f"{who} ({what} of {name}): {each.get('Description') or ''}"
        yield _line(name, key, "lore", text, {"part": "social_relationship"})
    for key, each in (memory.get("events") or {}).items():
        text = f"{each.get('summary') or ''}. {each.get('content') or ''}".strip(". ")
        when = each.get("Creation Time")
        yield _line(name, key, "event", text, {"part": "events", "when": when}, at=time_of(when, *_TIMES))
    for key, each in (memory.get("dialogues") or {}).items():
        contents = each.get("contents") or {}
        text = "\n".join(str(said) for lines in contents.values() for said in lines)
        at = time_of(next(iter(contents), None), *_TIMES)
        yield _line(name, key, "narrative", text, {"part": "dialogues"}, at=at)


def _line(name: str, key: str, chain: str, text: str, meta: Mapping[str, Any], at: str | None = None) -> Line:
    return {"id": f"{name}:{key}", "chain": chain, "session": name, "at": at, "text": text or key, "meta": dict(meta)}


def _questions(parts: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield (part, key of the memory under which it stands, question)."""
    for part in _PARTS:
        for each in parts.get(part) or ():
            if "Question" in each:
                yield part, "", each
                continue
            for key, questions in each.items():
                for question in questions:
                    yield part, key, question


def _relevant(name: str, part: str, key: str, question: Mapping[str, Any]) -> list[str]:
    reference = str(question.get("Reference Memory") or key)
    if part == "profile":
        return [f"{name}:{reference}"]
    found = _REFERENCE.findall(reference) or [key]
    return [f"{name}:{each}" for each in dict.fromkeys(found)]
