"""PersonaMem: `questions_*.csv` with `shared_contexts_*.jsonl`, and the `benchmark.csv` of PersonaMem-v2 with its chat histories.

The first version marks no message. It states how many tokens of gpt-4o precede a question, and how many of them come after the
start of its reference. Each message is counted by itself. So the reference is the message that begins exactly at the
difference; of a preference that changed, it is the earliest message. PersonaMem-v2 publishes the messages themselves.

System messages describe the persona. Nobody said them, so they are not documents.
"""

from __future__ import annotations

import ast
import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from evals.errors import DatasetError, SetupError
from evals.loaders.converted_set import ConvertedSet, Line, Progress, parse_json, read_json, read_text, require
from jacquard import ConfigError
from jacquard.config import RuntimeConfig
from jacquard.wiring.parts.named_parts import open_token_estimator

SOURCE = "huggingface.co/datasets/bowen-upenn/PersonaMem-v1"
SOURCE_V2 = "huggingface.co/datasets/bowen-upenn/PersonaMem-v2"
LICENCE = "MIT"
LICENCE_V2 = "CC BY 4.0"
_COUNTER = "tiktoken:o200k_base"
_NOT_SCORED = "questions whose reference is no message before them, not scored"
_LETTERS = "abcdefghij"
_LINKS = ("chat_history_32k_link", "chat_history_128k_link")


def convert(files: Sequence[Path], progress: Progress) -> ConvertedSet:
    """Return the set of a file of questions and its shared contexts, in this order.

    A question sees what was said before it: each place of a context where questions are asked is a session of its own.
    Raises SetupError if the tokens of gpt-4o cannot be counted.
    """
    question_file, context_file = files
    count = _open_counter()
    contexts = _read_contexts(context_file)
    rows = _read_rows(question_file)
    places_by_tokens: dict[str, dict[int, int]] = {}
    sessions: dict[str, list[Line]] = {}
    queries: list[Line] = []
    for number, (where, row) in enumerate(rows, start=1):
        name = require(row, "shared_context_id", where, str)
        if name not in contexts:
            raise DatasetError(
                f"{where}: shared_context_id {name!r} is not in {context_file}; name that of the same size."
            )
        messages = contexts[name]
        if name not in places_by_tokens:
            sums = accumulate((count(text) for _, text in messages), initial=0)
            places_by_tokens[name] = {tokens: place for place, tokens in enumerate(sums)}
        end, before, distance = (
            _whole_number(row, field, where)
            for field in ("end_index_in_shared_context", "context_length_in_tokens", "distance_to_ref_in_tokens")
        )
        session = f"{name}:{end}"
        sessions.setdefault(session, _documents(session, messages, end))
        options = _options(_read_cell(row, "all_options", where, list))
        choice = require(row, "correct_answer", where, str).strip("() ")
        queries.append(
            {
                "id": require(row, "question_id", where, str),
                "query": require(row, "user_question_or_message", where, str),
                "relevant": _labels([places_by_tokens[name].get(before - distance)], sessions[session]),
                "category": require(row, "question_type", where, str),
                "topic": row.get("topic"),
                **_answer(session, options, choice, where),
            }
        )
        progress("questions", number, len(rows))
    return _converted(question_file, SOURCE, LICENCE, sessions, queries)


def convert_v2(files: Sequence[Path], progress: Progress) -> ConvertedSet:
    """Return the set of one `benchmark.csv` (or `train.csv`, `val.csv`).

    Its histories are files of the data set: they are looked for below the folders that contain the file. Those of 32k tokens
    are read, or those of 128k if there are no others.
    """
    (file,) = files
    rows = _read_rows(file)
    link = next((each for each in _LINKS if _find_linked_file(file, rows[0][1].get(each))), _LINKS[0])
    sessions: dict[str, list[Line]] = {}
    messages: dict[str, list[tuple[str, str]]] = {}
    queries: list[Line] = []
    for number, (where, row) in enumerate(rows, start=1):
        path = require(row, link, where, str)
        session = Path(path).stem
        if session not in sessions:
            history = _find_linked_file(file, path)
            if history is None:
                raise DatasetError(
                    f"{where}: {path} is in no folder that contains the file; download it from {SOURCE_V2}."
                )
            said = require(read_json(history), "chat_history", str(history), list)
            messages[session] = _messages(said, f"{history}: chat_history")
            sessions[session] = _documents(session, messages[session])
        asked = require(row, "user_query", where, str)
        query = _read_cell(row, "user_query", where, dict) if asked.startswith("{") else {"content": asked}
        snippet = _read_cell(row, "related_conversation_snippet", where, list)
        wrong = _read_cell(row, "incorrect_answers", where, list)
        right = require(row, "correct_answer", where, str)
        options = dict(zip(_LETTERS, sorted({right, *map(str, wrong)}), strict=False))
        queries.append(
            {
                "id": f"{session}:q{number}",
                "query": require(query, "content", f"{where}: user_query", str),
                "relevant": _labels(_places(_messages(snippet, where), messages[session]), sessions[session]),
                "category": row.get("pref_type"),
                "topic": row.get("topic_preference"),
                **_answer(session, options, next(each for each in options if options[each] == right), where),
            }
        )
        progress("questions", number, len(rows))
    return _converted(file, SOURCE_V2, LICENCE_V2, sessions, queries)


def _converted(
    file: Path, source: str, licence: str, sessions: Mapping[str, Sequence[Line]], queries: Sequence[Line]
) -> ConvertedSet:
    missing = sum(not query["relevant"] for query in queries)
    return ConvertedSet(
        name=file.stem,
        source=source,
        licence=licence,
        corpora={"corpus.jsonl": [line for lines in sessions.values() for line in lines]},
        queries=queries,
        left_out={_NOT_SCORED: missing} if missing else {},
    )


def _read_rows(file: Path) -> list[tuple[str, Mapping[str, str]]]:
    """Return (place, row) of each row of a CSV file. Raises DatasetError if there is none, or one with missing cells."""
    reader = csv.DictReader(io.StringIO(read_text(file), newline=""))
    try:
        rows: list[tuple[str, Mapping[str, str]]] = [(f"{file}:{reader.line_num}", row) for row in reader]
    except csv.Error as error:
        raise DatasetError(f"{file}:{reader.line_num}: cannot be read as CSV ({error}).") from error
    if not rows:
        raise DatasetError(f"{file}: holds no questions; is this a file of PersonaMem?")
    for where, row in rows:
        if None in row or None in row.values():
            raise DatasetError(f"{where}: has another number of cells than the first line; download the file again.")
    return rows


def _read_contexts(file: Path) -> dict[str, list[tuple[str, str]]]:
    contexts: dict[str, list[tuple[str, str]]] = {}
    for number, line in enumerate(read_text(file).split("\n"), start=1):
        where = f"{file}:{number}"
        if not line.strip():
            continue
        value = parse_json(line, where)
        if not isinstance(value, dict):
            raise DatasetError(f"{where}: names no context; name the questions first, then their shared contexts.")
        contexts |= {name: _messages(said, where) for name, said in value.items()}
    return contexts


def _messages(said: Any, where: str) -> list[tuple[str, str]]:
    """Return (role, text) of each message. Raises DatasetError, which names the message, if it is not text."""
    if not isinstance(said, list):
        raise DatasetError(f"{where}: is {type(said).__name__}; it must be a list of messages.")
    return [
        (require(each, "role", f"{where}[{place}]", str), require(each, "content", f"{where}[{place}]", str))
        for place, each in enumerate(said)
    ]


def _documents(session: str, messages: Sequence[tuple[str, str]], end: int | None = None) -> list[Line]:
    """Return the turns before `end`. If a system message begins each sitting of the history, turns name their sitting."""
    sittings = list(accumulate(role == "system" for role, _ in messages))
    return [
        {
            "id": f"{session}:{place}",
            "chain": "history",
            "session": session,
            "turn": place,
            "speaker": role,
            "text": text,
            "meta": {"session_id": str(sittings[place])} if sittings[-1] > 1 else {},
        }
        for place, (role, text) in enumerate(messages[:end])
        if role != "system" and text.strip()
    ]


def _labels(places: Sequence[int | None], documents: Sequence[Line]) -> dict[str, int]:
    return {line["id"]: 1 for line in documents if line["turn"] in places}


def _places(snippet: Sequence[tuple[str, str]], messages: Sequence[tuple[str, str]]) -> list[int]:
    """Return the places of a snippet's messages; one that was said several times is relevant each time."""
    length = len(snippet)
    return [
        place
        for first in range(len(messages) - length + 1)
        if length and list(messages[first : first + length]) == list(snippet)
        for place in range(first, first + length)
    ]


def _options(lines: Sequence[Any]) -> dict[str, str]:
    """Return options by letter; each is written as `(a) …`."""
    return {letter: text.strip() for letter, _, text in (str(line).lstrip("( ").partition(")") for line in lines)}


def _answer(session: str, options: Mapping[str, str], choice: str, where: str) -> Line:
    if choice not in options:
        raise DatasetError(
            f"{where}: correct_answer {choice!r} is none of {', '.join(options)}; download the file again."
        )
    return {"session": session, "answer": options[choice], "options": options, "choice": choice}


def _read_cell(row: Mapping[str, str], name: str, where: str, kind: type) -> Any:
    """Return the list or mapping of a cell, which is written as JSON or as Python."""
    text = require(row, name, where, str)
    try:
        value = json.loads(text) if text.strip() else kind()
    except (ValueError, RecursionError):
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
            raise DatasetError(
                f"{where}: {name} is neither JSON nor Python ({error}); download the file again."
            ) from error
    if not isinstance(value, kind):
        raise DatasetError(f"{where}: {name} is {type(value).__name__}; it must be {kind.__name__}.")
    return value


def _whole_number(row: Mapping[str, str], name: str, where: str) -> int:
    text = require(row, name, where, str)
    if not text.strip().isdecimal():
        raise DatasetError(f"{where}: {name} is {text!r}; it must be a whole number.")
    return int(text)


def _find_linked_file(file: Path, link: str | None) -> Path | None:
    """Return the file of a link, which is relative to one of the folders above `file`."""
    if not link or Path(link).is_absolute() or ".." in Path(link).parts:
        return None
    return next((found for folder in file.absolute().parents if (found := folder / link).is_file()), None)


def _open_counter() -> Callable[[str], int]:
    try:
        return open_token_estimator(RuntimeConfig(token_estimator=_COUNTER)).estimate
    except ConfigError as error:
        raise SetupError(f"PersonaMem names its references by tokens of gpt-4o. {error}") from error
