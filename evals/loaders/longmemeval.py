"""LongMemEval (`longmemeval_s.json`, `_m`, `_oracle`): each question has a history of its own, and is a session of its own.

A turn is relevant where the data says `has_answer`. If it marks no turn of a question, those of the sessions that hold
the answer are. Questions whose answer is nowhere (`…_abs`) have no labels; they run and are not scored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.errors import DatasetError
from evals.loaders.converted_set import ConvertedSet, Line, Progress, read_json, require, time_of

SOURCE = "github.com/xiaowu0162/LongMemEval"
LICENCE = "MIT"
_ABSTAIN = "_abs"
_WEEKDAY = re.compile(r"\s*\([^)]*\)")


def convert(files: Sequence[Path], progress: Progress) -> ConvertedSet:
    """Return the set of one file of the data; sessions of a history are put in the order of their dates."""
    (file,) = files
    asked = read_json(file)
    if not isinstance(asked, list):
        raise DatasetError(f"{file}: holds no list of questions; is this a file of LongMemEval?")
    turns: list[Line] = []
    queries: list[Line] = []
    left_out: Counter[str] = Counter()
    for count, question in enumerate(asked, start=1):
        where = f"{file}[{count - 1}]"
        name = str(require(question, "question_id", where, object))
        own, marked, held = _history(name, question, where)
        abstains = name.endswith(_ABSTAIN)
        relevant = [] if abstains else marked or held
        if not relevant:
            left_out["abstentions, not scored" if abstains else "questions without evidence, not scored"] += 1
        turns += own
        kind = str(question.get("question_type"))
        queries.append(
            {
                "id": name,
                "session": name,
                "query": require(question, "question", where, str),
                "relevant": dict.fromkeys(relevant, 1),
                "category": "abstention" if abstains else kind,
                "answer": question.get("answer"),
                "asked_at": _read_time(question.get("question_date")),
            }
        )
        progress("questions", count, len(asked))
    return ConvertedSet(
        name=file.stem,
        source=SOURCE,
        licence=LICENCE,
        corpora={"corpus.jsonl": turns},
        queries=queries,
        left_out=left_out,
    )


def _history(name: str, question: Mapping[str, Any], where: str) -> tuple[list[Line], list[str], list[str]]:
    """Return the turns of a question's history, those marked as evidence, and those of the sessions with the answer."""
    sessions = require(question, "haystack_sessions", where, list)
    ids = question.get("haystack_session_ids") or [str(number) for number in range(len(sessions))]
    dates = [_read_time(date) for date in question.get("haystack_dates") or [None] * len(sessions)]
    if not len(ids) == len(dates) == len(sessions):
        raise DatasetError(f"{where}: haystack_sessions, _session_ids and _dates are not of one length.")
    answers = set(map(str, question.get("answer_session_ids") or ()))
    turns: list[Line] = []
    marked: list[str] = []
    held: list[str] = []
    for number in sorted(range(len(sessions)), key=lambda each: (dates[each] or "", each)):
        for place, said in enumerate(sessions[number]):
            text = require(said, "content", f"{where}.haystack_sessions[{number}][{place}]", str)
            if not text.strip():
                continue
            entry = f"{name}:{number}:{place}"
            turns.append(
                {
                    "id": entry,
                    "chain": "history",
                    "session": name,
                    "turn": len(turns),
                    "at": dates[number],
                    "speaker": said.get("role"),
                    "text": text,
                    "meta": {"session_id": str(ids[number])},
                }
            )
            if said.get("has_answer"):
                marked.append(entry)
            if str(ids[number]) in answers:
                held.append(entry)
    return turns, marked, held


def _read_time(text: Any) -> str | None:
    return time_of(_WEEKDAY.sub("", str(text)), "%Y/%m/%d %H:%M", "%Y/%m/%d")
