"""Conversations of labelled sets are played turn by turn, at their times, and their own questions are asked of the prompts."""

from __future__ import annotations

import json

import pytest
from anyio import to_thread
from typer.testing import CliRunner

from evals.app import app
from evals.dataset import read_set
from evals.play.conversations import SILENCE, find_conversations, play_set

pytestmark = pytest.mark.anyio


def line(number, speaker, text, day=1, **more):
    at = f"2024-05-{day:02d}T18:00:00"
    return {"id": f"t{number}", "chain": "history", "session": "s", "at": at, "speaker": speaker, "text": text, **more}


TALK = (
    line(1, "Ann", "The key is under the third stone."),
    line(2, "Bob", "And the lamp?"),
    line(3, "Ann", "In the shed."),
    line(4, "Ann", "Good night."),
    line(5, "Bob", "Today I sold the boat.", day=2),
    line(6, "Ann", "For how much?", day=2),
)
ASKED = (
    {
        "id": "q1",
        "session": "s",
        "query": "Where is the key?",
        "relevant": {"t1": 1},
        "category": "where",
        "answer": "under the third stone",
    },
    {
        "id": "q2",
        "session": "s",
        "query": "When was the boat sold?",
        "relevant": {"t5": 1},
        "category": "when",
        "answer": "2 May 2024",
    },
)
LORE = {"id": "palace", "chain": "lore", "session": None, "text": "The palace opens at half past eight."}
DIALOGUE = (
    {
        "id": "d:1",
        "session": "d",
        "query": "When does the palace open?",
        "history": [],
        "relevant": {"palace": 1},
        "answer": "Half past eight.",
    },
    {
        "id": "d:2",
        "session": "d",
        "query": "Half past eight.",
        "history": [{"speaker": "A", "text": "When does the palace open?"}],
        "relevant": {},
        "answer": "Thank you.",
    },
    {
        "id": "d:3",
        "session": "d",
        "query": "Thank you.",
        "history": [{"speaker": "B", "text": "Half past eight."}],
        "relevant": {},
        "answer": "Not at all.",
    },
)


def write(folder, corpus, queries):
    folder.mkdir(exist_ok=True)
    for name, rows in (("corpus.jsonl", corpus), ("queries.jsonl", queries)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


async def played(folder, tmp_path, **options):
    labelled = await to_thread.run_sync(read_set, folder)
    return await play_set(labelled, budget_tokens=2000, embedder="none", cache=tmp_path / "cache", **options)


def test_lines_of_one_sitting_become_turns_and_a_missing_half_is_a_silence(tmp_path):
    (found,) = find_conversations(read_set(write(tmp_path / "set", TALK, ASKED)))
    assert [(each.input, each.reply, each.at.day) for each in found.exchanges] == [
        ("The key is under the third stone.", "And the lamp?", 1),
        ("In the shed.\nGood night.", SILENCE, 1),
        (SILENCE, "Today I sold the boat.", 2),
        ("For how much?", SILENCE, 2),
    ]


def test_who_the_lines_call_a_user_is_the_user(tmp_path):
    rows = [line(1, "Ann", "Hello."), line(2, "Bob", "Where is it?", role="user"), line(3, "Ann", "Here.")]
    (found,) = find_conversations(read_set(write(tmp_path / "set", rows, ASKED[:1])))
    assert [(each.input, each.reply) for each in found.exchanges] == [(SILENCE, "Hello."), ("Where is it?", "Here.")]


def test_lines_of_a_dialogue_are_joined_and_only_the_users_questions_are_asked(tmp_path):
    (found,) = find_conversations(read_set(write(tmp_path / "set", [LORE], DIALOGUE)))
    assert [(each.input, each.reply) for each in found.exchanges] == [
        ("When does the palace open?", "Half past eight."),
        ("Thank you.", "Not at all."),
    ]
    assert [each.query.query_id for each in found.exchanges] == ["d:1", "d:3"]


async def test_questions_are_asked_after_the_conversation_at_its_times(tmp_path):
    asked = await played(write(tmp_path / "set", TALK, ASKED), tmp_path)
    assert [(each.query_id, each.evidence, each.answer) for each in asked] == [("q1", 1.0, True), ("q2", 1.0, None)]
    assert asked[0].tokens <= 2000


async def test_a_question_of_a_dialogue_is_scored_where_it_is_said(tmp_path):
    asked = await played(write(tmp_path / "set", [LORE], DIALOGUE), tmp_path)
    assert [(each.query_id, each.evidence) for each in asked] == [("d:1", 1.0), ("d:3", None)]


async def test_a_limit_keeps_whole_conversations_and_fewer_questions(tmp_path):
    asked = await played(write(tmp_path / "set", TALK, ASKED), tmp_path, limit=1)
    assert [each.query_id for each in asked] == ["q1"]


def test_the_command_prints_shares_with_their_counts(tmp_path):
    words = [
        "play",
        "--data",
        str(write(tmp_path / "set", TALK, ASKED)),
        "--embedder",
        "none",
        "--cache",
        str(tmp_path / "c"),
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "100.0 % of 2" in done.output
