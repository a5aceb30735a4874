"""MemBench: each trajectory of a file is a session and asks one question. A file has one category (`MemData`), all of them (`data`)
or samples of all (`data2test`).

A step (what the user said, with the assistant's reply if there is one) is one document, because labels are of steps.
`target_step_id` names a step by its `sid`, or by its place if the steps of the file have none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.errors import DatasetError
from evals.loaders.converted_set import ConvertedSet, Line, Progress, read_json, require, time_of

SOURCE = "github.com/import-myself/Membench"
LICENCE = "not stated in its repository"
_TIME = re.compile(r"time:? ?'([\d-]+ [\d:]+)'")
_USER, _ASSISTANT = ("user", "user_message", "message"), ("agent", "assistant", "assistant_message")


def convert(files: Sequence[Path], progress: Progress) -> ConvertedSet:
    """Return the set of one file; a question whose evidence is not among its steps runs and is not scored."""
    (file,) = files
    trajectories = list(_trajectories(read_json(file)))
    if not trajectories:
        raise DatasetError(f"{file}: holds no trajectories by scenario; is this a file of MemBench?")
    documents: list[Line] = []
    queries: list[Line] = []
    left_out: Counter[str] = Counter()
    for count, (names, trajectory) in enumerate(trajectories, start=1):
        session, where = ":".join(names), f"{file}[{']['.join(names)}]"
        asked = require(trajectory, "QA", where, dict)
        targets = list(_targets(asked.get("target_step_id")))
        numbers, own = _steps(session, require(trajectory, "message_list", where, list), where)
        documents += own
        relevant = [line["id"] for number, line in zip(numbers, own, strict=True) if number in targets]
        if not relevant:
            left_out["questions without known evidence, not scored"] += 1
        choices = require(asked, "choices", f"{where}.QA", dict)
        choice = require(asked, "ground_truth", f"{where}.QA", str)
        queries.append(
            {
                "id": f"{session}:q",
                "session": session,
                "query": require(asked, "question", f"{where}.QA", str),
                "relevant": dict.fromkeys(relevant, 1),
                "category": (file.stem, *names)[-3],
                "scenario": names[-2],
                "answer": _join(choices.get(choice, asked.get("answer"))),
                "options": {letter: _join(value) for letter, value in choices.items()},
                "choice": choice,
                "asked_at": _read_time(f"time: {asked.get('time')}"),
            }
        )
        progress("trajectories", count, len(trajectories))
    return ConvertedSet(
        name=file.stem,
        source=SOURCE,
        licence=LICENCE,
        corpora={"corpus.jsonl": documents},
        queries=queries,
        left_out=left_out,
    )


def _trajectories(value: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield (names of category, scenario and trajectory; trajectory). A file of one category does not name it."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _trajectories(part, *names, name)
    elif isinstance(value, list) and names:
        for number, trajectory in enumerate(value):
            yield (*names, str(number)), trajectory


def _steps(session: str, parts: Sequence[Any], where: str) -> tuple[list[Any], list[Line]]:
    """Return the numbers by which labels name steps, and the steps; `parts` are steps or lists of steps, one a sitting."""
    sittings = all(isinstance(part, list) for part in parts)
    placed = [(number, step) for number, part in enumerate(parts) for step in (part if sittings else [part])]
    numbered = all(isinstance(step, Mapping) and "sid" in step for _, step in placed)
    numbers: list[Any] = []
    lines: list[Line] = []
    for place, (sitting, step) in enumerate(placed):
        text = _text(step, f"{where}.message_list, step {place}")
        if text.strip():
            numbers.append(step["sid"] if numbered else place)
            lines.append(
                {
                    "id": f"{session}:{place}",
                    "chain": "history",
                    "session": session,
                    "turn": place,
                    "at": _read_time(text),
                    "text": text,
                    "meta": {"session_id": str(sitting)} if sittings else {},
                }
            )
    return numbers, lines


def _text(step: Any, where: str) -> str:
    """Return the words of a step with its place and time, which the samples of the authors write after the words."""
    if isinstance(step, str):
        return step
    if not isinstance(step, Mapping):
        raise DatasetError(f"{where}: is {type(step).__name__}; a step is text or has {', '.join(_USER)}.")
    said, reply = (next((step[name] for name in names if step.get(name)), "") for names in (_USER, _ASSISTANT))
    text = f"User: {said}\nAssistant: {reply}" if reply else str(said)
    place, time = step.get("place"), step.get("time")
    return f"{text} (place: {place}; time: {time})" if text and place and time and "(place: " not in text else text


def _targets(value: Any) -> Iterator[int]:
    """Yield the numbers of the labelled steps; files with sittings pair each with the number of its sitting."""
    for each in value if isinstance(value, list) else [value]:
        target = each[0] if isinstance(each, list) and each else each
        if isinstance(target, int):
            yield target


def _read_time(text: str) -> str | None:
    found = _TIME.search(text)
    return time_of(found[1], "%Y-%m-%d %H:%M") if found else None


def _join(value: Any) -> Any:
    """Return an answer as text; recommendations are lists."""
    return ", ".join(map(str, value)) if isinstance(value, list) else value
