"""LoCoMo (`locomo10.json`): turns, the data's own observations and sitting summaries, each with labels of their own.

Turns are `corpus.jsonl` with `relevant`; `corpus_observations.jsonl` goes with `relevant_observations` and
`corpus_summaries.jsonl` with `relevant_summaries` (`run --corpus … --labels …`). Labels are the published ones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.loaders.converted_set import ConvertedSet, Line, Progress, read_json, require, time_of

SOURCE = "github.com/snap-research/locomo, data/locomo10.json"
LICENCE = "CC BY-NC 4.0"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_TIME = "%I:%M %p on %d %B, %Y"
_SITTING = re.compile(r"session_(\d+)\Z")
_TURN = re.compile(r"D\d+:\d+")


def convert(files: Sequence[Path], progress: Progress) -> ConvertedSet:
    """Return the set of one `locomo10.json`; questions without any known evidence are left out."""
    (file,) = files
    talks = read_json(file)
    turns: list[Line] = []
    observations: list[Line] = []
    summaries: list[Line] = []
    queries: list[Line] = []
    left_out: Counter[str] = Counter()
    for count, turns_by_id in enumerate(talks, start=1):
        where = f"{file}[{count - 1}]"
        name, conversation = (
            str(require(turns_by_id, "sample_id", where, object)),
            require(turns_by_id, "conversation", where, dict),
        )
        own = list(_turns(name, conversation, where))
        turns += own
        observed, cited = _observations(name, turns_by_id, conversation)
        observations += observed
        summed = _summaries(name, turns_by_id, conversation)
        summaries += summed
        known = {line["meta"]["dia_id"] for line in own}
        for number, asked in enumerate(require(turns_by_id, "qa", where, list)):
            evidence = [turn for text in asked.get("evidence") or () for turn in _TURN.findall(str(text))]
            found = list(dict.fromkeys(turn for turn in evidence if turn in known))
            if not found:
                left_out["questions without known evidence"] += 1
                continue
            sittings = {f"{name}:S{turn[1:].partition(':')[0]}" for turn in found}
            queries.append(
                {
                    "id": f"{name}:q{number}",
                    "session": name,
                    "query": require(asked, "question", f"{where}.qa[{number}]", str),
                    "relevant": {f"{name}:{turn}": 1 for turn in found},
                    "category": CATEGORIES.get(asked.get("category"), str(asked.get("category"))),
                    "answer": asked.get("answer"),
                    "relevant_observations": {entry: 1 for entry, its in cited.items() if its & set(found)},
                    "relevant_summaries": {line["id"]: 1 for line in summed if line["id"] in sittings},
                }
            )
        progress("conversations", count, len(talks))
    corpora = {
        "corpus.jsonl": turns,
        "corpus_observations.jsonl": observations,
        "corpus_summaries.jsonl": summaries,
    }
    return ConvertedSet(
        name="locomo", source=SOURCE, licence=LICENCE, corpora=corpora, queries=queries, left_out=left_out
    )


def _sittings(conversation: Mapping[str, Any]) -> list[int]:
    return sorted(int(found[1]) for key in conversation if (found := _SITTING.match(key)))


def _turns(name: str, conversation: Mapping[str, Any], where: str) -> Iterator[Line]:
    place = 0
    for sitting in _sittings(conversation):
        at = time_of(conversation.get(f"session_{sitting}_date_time"), _TIME)
        for said in require(conversation, f"session_{sitting}", where, list):
            dia_id = require(said, "dia_id", f"{where}.session_{sitting}", str)
            caption = said.get("blip_caption")
            text = " ".join(
                part for part in (said.get("text"), f"[shares an image: {caption}]" if caption else "") if part
            )
            if text.strip():
                yield {
                    "id": f"{name}:{dia_id}",
                    "chain": "history",
                    "session": name,
                    "turn": place,
                    "at": at,
                    "speaker": said.get("speaker"),
                    "text": text,
                    "meta": {"dia_id": dia_id, "sitting": sitting},
                }
                place += 1


def _observations(
    name: str, turns_by_id: Mapping[str, Any], conversation: Mapping[str, Any]
) -> tuple[list[Line], dict[str, set[str]]]:
    """Return what the data observes of each speaker, and which turns each observation cites."""
    lines: list[Line] = []
    cited: dict[str, set[str]] = {}
    for sitting in _sittings(conversation):
        observed = (turns_by_id.get("observation") or {}).get(f"session_{sitting}_observation") or {}
        at = time_of(conversation.get(f"session_{sitting}_date_time"), _TIME)
        for place, (speaker, (text, evidence)) in enumerate(
            (speaker, each[:2]) for speaker, noted in observed.items() for each in noted if len(each) >= 2
        ):
            entry = f"{name}:O{sitting}:{place}"
            meta = {"sitting": sitting, "about": speaker}
            lines.append({"id": entry, "chain": "event", "session": name, "at": at, "text": str(text), "meta": meta})
            cited[entry] = set(_TURN.findall(str(evidence)))
    return lines, cited


def _summaries(name: str, turns_by_id: Mapping[str, Any], conversation: Mapping[str, Any]) -> list[Line]:
    found = turns_by_id.get("session_summary") or {}
    return [
        {
            "id": f"{name}:S{sitting}",
            "chain": "narrative",
            "session": name,
            "at": time_of(conversation.get(f"session_{sitting}_date_time"), _TIME),
            "text": text,
            "meta": {"sitting": sitting},
        }
        for sitting in _sittings(conversation)
        if isinstance(text := found.get(f"session_{sitting}_summary"), str) and text.strip()
    ]
