"""Loaders of published benchmarks: small files in the form of each, made up here, become sets that can be run."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from evals.app import app
from evals.dataset import read_set

LOCOMO = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Bo",
            "session_2_date_time": "9:05 am on 2 June, 2023",
            "session_2": [{"speaker": "Bo", "dia_id": "D2:1", "text": "I sold the boat."}],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ann", "dia_id": "D1:1", "text": "I bought a kite.", "blip_caption": "a red kite"},
                {"speaker": "Bo", "dia_id": "D1:2", "text": "And I a boat."},
            ],
        },
        "observation": {"session_1_observation": {"Bo": [["Bo has a boat.", "D1:2"]]}},
        "session_summary": {"session_1_summary": "They bought things."},
        "qa": [
            {"question": "What did Bo sell?", "answer": "A boat", "evidence": ["D2:1; D1:2"], "category": 1},
            {"question": "Who flies?", "answer": "Nobody", "evidence": [], "category": 4},
            {"question": "When was the kite bought?", "answer": 2023, "evidence": ["D1:1", "D9:9"], "category": 2},
        ],
    }
]
LONGMEMEVAL = [
    {
        "question_id": "q1",
        "question_type": "multi-session",
        "question": "What do I play?",
        "answer": "The lute",
        "question_date": "2023/06/01 (Thu) 10:00",
        "haystack_session_ids": ["late", "early"],
        "haystack_dates": ["2023/05/30 (Tue) 23:40", "2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [
            [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello!"}],
            [{"role": "user", "content": "I play the lute.", "has_answer": True}, {"role": "assistant", "content": ""}],
        ],
        "answer_session_ids": ["early"],
    },
    {
        "question_id": "q2_abs",
        "question_type": "single-session-user",
        "question": "What is my cat called?",
        "answer": "You never said",
        "haystack_session_ids": ["one"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [[{"role": "user", "content": "I have a dog."}]],
        "answer_session_ids": ["one"],
    },
]
MEMORY = {
    "Mei": {
        "profile": {"Protagonist": "Mei", "Age": 28},
        "social_relationship": {
            "1_0": {"Supporting Characters": "Lin", "Relationship": "sister", "Description": "Lin is a doctor."}
        },
        "events": {"1_0_0": {"content": "They saw the canyon.", "summary": "A trip", "Creation Time": "May 12, 2022"}},
        "dialogues": {"1_0_0#0": {"events": "1_0_0", "contents": {"2022-05-13 10:00": ["Mei: Look!", "Lin: Oh."]}}},
    }
}
ASKED = [
    {
        "Mei": {
            "profile": [{"Question": "How old is Mei?", "Answer": "28", "Reference Memory": "Age"}],
            "social_relationship": [
                {"1_0": [{"Question": "Who is Lin?", "Answer": "Her sister", "Reference Memory": "['1_0']"}]}
            ],
            "events": [{"1_0_0": [{"Question": "What did they see?", "Answer": "A canyon", "Reference Memory": ""}]}],
            "dialogues": [
                {"1_0_0#0": [{"Question": "Who said oh?", "Answer": "Lin", "Reference Memory": "['1_0_0#0']"}]},
                {"9_9_9#9": [{"Question": "Who else?", "Answer": "?", "Reference Memory": "['9_9_9#9']"}]},
            ],
        }
    }
]


def convert(tmp_path, kind, *values):
    files = []
    for number, value in enumerate(values):
        files.append(tmp_path / f"{kind}{number}.json")
        files[-1].write_text(json.dumps(value), encoding="utf-8")
    done = CliRunner().invoke(app, ["convert", kind, *map(str, files), "--out", str(tmp_path / "set")])
    return done, tmp_path / "set"


def test_locomo(tmp_path):
    done, folder = convert(tmp_path, "locomo", LOCOMO)
    assert done.exit_code == 0, done.output
    assert "left out: 1 questions without known evidence" in done.stdout
    found = read_set(folder)
    assert [each.document_id for each in found.corpus.documents] == ["conv-1:D1:1", "conv-1:D1:2", "conv-1:D2:1"]
    assert found.corpus.documents[0].text == "I bought a kite. [shares an image: a red kite]"
    assert found.corpus.documents[2].at.isoformat().startswith("2023-06-02T09:05")
    assert [(each.category, dict(each.relevant)) for each in found.queries] == [
        ("multi-hop", {"conv-1:D2:1": 1, "conv-1:D1:2": 1}),
        ("temporal", {"conv-1:D1:1": 1}),
    ]
    both = read_set(folder, corpora=["corpus_observations.jsonl"], labels=["relevant_observations"])
    assert dict(both.queries[0].relevant) == {"conv-1:O1:0": 1}
    told = read_set(folder, corpora=["corpus_summaries.jsonl"], labels=["relevant_summaries"])
    assert dict(told.queries[1].relevant) == {"conv-1:S1": 1}


def test_longmemeval(tmp_path):
    done, folder = convert(tmp_path, "longmemeval", LONGMEMEVAL)
    assert done.exit_code == 0, done.output
    assert "1 abstentions, not scored" in done.stdout
    found = read_set(folder)
    assert [each.text for each in found.corpus.documents[:2]] == ["I play the lute.", "Hello."]
    assert [(each.session, each.category, dict(each.relevant)) for each in found.queries] == [
        ("q1", "multi-session", {"q1:1:0": 1}),
        ("q2_abs", "abstention", {}),
    ]


def test_where_no_turn_is_marked_the_sessions_with_the_answer_are_relevant(tmp_path):
    bare = json.loads(json.dumps(LONGMEMEVAL[:1]))
    del bare[0]["haystack_sessions"][1][0]["has_answer"]
    _, folder = convert(tmp_path, "longmemeval", bare)
    assert dict(read_set(folder).queries[0].relevant) == {"q1:1:0": 1}


def test_perltqa(tmp_path):
    done, folder = convert(tmp_path, "perltqa", MEMORY, ASKED)
    assert done.exit_code == 0, done.output
    assert "left out: 1 questions without known memory" in done.stdout
    found = read_set(folder)
    chains = {each.document_id: each.chain.value for each in found.corpus.documents}
    assert chains["Mei:1_0"] == chains["Mei:Age"] == "lore"
    assert (chains["Mei:1_0_0"], chains["Mei:1_0_0#0"]) == ("event", "narrative")
    assert [list(each.relevant) for each in found.queries] == [
        ["Mei:Age"],
        ["Mei:1_0"],
        ["Mei:1_0_0"],
        ["Mei:1_0_0#0"],
    ]


@pytest.mark.parametrize(
    ("kind", "values", "said"),
    [
        ("locomo", ([{"qa": []}],), "sample_id is missing"),
        ("longmemeval", ({"a": 1},), "no list of questions"),
        ("perltqa", (ASKED, MEMORY), "name the memory file first"),
        ("perltqa", (MEMORY,), "needs 2"),
    ],
)
def test_other_files_are_refused_in_a_sentence(tmp_path, kind, values, said):
    done, folder = convert(tmp_path, kind, *values)
    assert done.exit_code in (1, 2)
    assert said in done.output
    assert not (folder / "queries.jsonl").exists()


def test_a_converted_set_runs(tmp_path):
    _, folder = convert(tmp_path, "locomo", LOCOMO)
    report = tmp_path / "report.json"
    done = CliRunner().invoke(app, ["run", "--data", str(folder), "--embedder", "none", "--json", str(report)])
    assert done.exit_code == 0, done.output
    assert json.loads(report.read_text(encoding="utf-8"))["metrics"]["recall@5"] == 1.0


def test_only_the_sessions_that_are_named_are_kept(tmp_path):
    other = json.loads(json.dumps(LOCOMO[0]).replace("conv-1", "conv-2"))
    (tmp_path / "two.json").write_text(json.dumps([*LOCOMO, other]), encoding="utf-8")
    command = ["convert", "locomo", str(tmp_path / "two.json"), "--out", str(tmp_path / "set"), "--session", "conv-2"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    found = read_set(tmp_path / "set")
    assert {each.session for each in found.corpus.documents} == {each.session for each in found.queries} == {"conv-2"}
    assert (tmp_path / "set" / "corpus_summaries.jsonl").read_text(encoding="utf-8").count("conv-2:S1") == 1
    missing = CliRunner().invoke(app, [*command[:-1], "conv-3"])
    assert missing.exit_code == 1
    assert "there is no session 'conv-3'; it has conv-1, conv-2" in missing.stderr
