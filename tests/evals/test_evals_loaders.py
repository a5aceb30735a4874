"""Loaders of published benchmarks: small files in the form of each, made up here, become sets that can be run."""

from __future__ import annotations

import csv
import io
import json

import pytest
from typer.testing import CliRunner

from evals.app import app
from evals.dataset import read_set
from mnemosyne.core.exact_tokens.tiktoken_encoding import TiktokenEstimator

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
CHOICES = {"A": "Baker", "B": "Pilot", "C": "Nurse", "D": "Judge"}
MEMBENCH = {
    "knowledge_update": {
        "roles": [
            {
                "tid": 0,
                "message_list": [
                    [
                        {
                            "sid": 0,
                            "user_message": "My aunt is a baker.",
                            "assistant_message": "How nice.",
                            "time": "'2024-10-01 08:00' Tuesday",
                            "place": "Boston, MA",
                        },
                        {"sid": 1, "user_message": "It rains.", "assistant_message": None},
                        {"sid": 1, "user_message": "Sorry, my aunt is a pilot.", "assistant_message": "I see."},
                    ],
                    [{"sid": 2, "user_message": "", "assistant_message": ""}, {"sid": 3, "message": "Good night."}],
                ],
                "QA": {
                    "qid": 0,
                    "question": "What is my aunt?",
                    "answer": "Pilot",
                    "target_step_id": [[1, 0]],
                    "choices": CHOICES,
                    "ground_truth": "B",
                    "time": "'2024-10-02 09:30' Wednesday",
                },
            }
        ]
    },
    "lowlevel_rec": {
        "movie": [
            {
                "tid": 7,
                "message_list": [
                    {
                        "user": "推荐一部电影。(place: 上海; time: '2024-10-01 08:00' Tuesday)",
                        "agent": "请看《大河》。",
                    },
                    "今天下雨。 (place: 上海; time'2024-10-01 08:05' Tuesday)",
                ],
                "QA": {
                    "question": "你推荐过什么？",
                    "answer": ["大河", "小河"],
                    "target_step_id": [0, 2],
                    "choices": {"A": ["大河", "小河"], "B": ["大河"]},
                    "ground_truth": "A",
                },
            },
            {
                "tid": 8,
                "message_list": ["I like tea."],
                "QA": {
                    "question": "Which films?",
                    "target_step_id": [],
                    "choices": {"A": "None"},
                    "ground_truth": "A",
                },
            },
        ]
    },
}
PERSONA = {"role": "system", "content": "Current user persona: Kim."}
CONTEXT = [
    PERSONA,
    {"role": "user", "content": "User: I like tea."},
    {"role": "assistant", "content": "Assistant: Good."},
    PERSONA,
    {"role": "user", "content": "User: 我现在更喜欢咖啡。"},
    {"role": "assistant", "content": "Assistant: 好的。"},
    {"role": "user", "content": "User: What should I drink?"},
]


def as_csv(*rows):
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def persona_question(name, end, place, **changes):
    """Return a row whose reference is the message at `place` of the context."""
    sizes = [TiktokenEstimator().estimate(each["content"]) for each in CONTEXT]
    before = sum(sizes[:end]) + 6
    return {
        "question_id": name,
        "question_type": "recall_user_shared_facts",
        "topic": "drinks",
        "context_length_in_tokens": before,
        "distance_to_ref_in_tokens": before - sum(sizes[:place]),
        "user_question_or_message": "What should I drink?",
        "correct_answer": "(b)",
        "all_options": str(["(a) Tea, you don't like coffee", "(b) 咖啡"]),
        "shared_context_id": "c1",
        "end_index_in_shared_context": end,
    } | changes


HISTORY = {"metadata": {}, "chat_history": [*CONTEXT[:3], {"role": "user", "content": "Is 7 prime?"}]}
PERSONA_V2 = {
    "persona_id": "0",
    "chat_history_32k_link": "data/chat_history_32k/kim.json",
    "user_query": str({"role": "user", "content": "Which drink?"}),
    "correct_answer": "Tea",
    "incorrect_answers": json.dumps(["Coffee", "Water"]),
    "topic_preference": "drinks",
    "pref_type": "stereotypical_pref",
    "related_conversation_snippet": json.dumps(CONTEXT[1:3]),
}


def write_benchmark(tmp_path, *rows):
    """Write PersonaMem-v2 in the folders of its authors, and return the file of questions."""
    for file, text in {
        "data/chat_history_32k/kim.json": json.dumps(HISTORY),
        "benchmark/text/benchmark.csv": as_csv(*rows),
    }.items():
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(text, encoding="utf-8")
    return tmp_path / "benchmark" / "text" / "benchmark.csv"


def convert(tmp_path, kind, *values):
    files = []
    for number, value in enumerate(values):
        files.append(tmp_path / f"{kind}{number}.json")
        files[-1].write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return convert_files(tmp_path, kind, *files)


def convert_files(tmp_path, kind, *files):
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


def test_membench_labels_name_steps_by_their_sid(tmp_path):
    done, folder = convert(tmp_path, "membench", MEMBENCH)
    assert done.exit_code == 0, done.output
    found = read_set(folder)
    own = [each for each in found.corpus.documents if each.session == "knowledge_update:roles:0"]
    assert [each.text for each in own] == [
        "User: My aunt is a baker.\nAssistant: How nice. (place: Boston, MA; time: '2024-10-01 08:00' Tuesday)",
        "It rains.",
        "User: Sorry, my aunt is a pilot.\nAssistant: I see.",
        "Good night.",
    ]
    assert own[0].at.isoformat().startswith("2024-10-01T08:00")
    assert [each.metadata["session_id"] for each in own] == ["0", "0", "0", "1"]
    first = found.queries[0]
    assert list(first.relevant) == ["knowledge_update:roles:0:1", "knowledge_update:roles:0:2"]
    assert (first.category, first.answer) == ("knowledge_update", "Pilot")


def test_membench_labels_name_steps_by_their_place_where_they_have_no_sid(tmp_path):
    done, folder = convert(tmp_path, "membench", MEMBENCH)
    assert "left out: 1 questions without known evidence, not scored" in done.stdout
    found = read_set(folder)
    own = [each for each in found.corpus.documents if each.session == "lowlevel_rec:movie:0"]
    assert [each.at.isoformat()[:16] for each in own] == ["2024-10-01T08:00", "2024-10-01T08:05"]
    assert [(dict(each.relevant), each.answer) for each in found.queries[1:]] == [
        ({"lowlevel_rec:movie:0:0": 1}, "大河, 小河"),
        ({}, "None"),
    ]


def test_a_membench_file_of_one_category_is_named_by_it(tmp_path):
    done, folder = convert(tmp_path, "membench", MEMBENCH["lowlevel_rec"])
    assert done.exit_code == 0, done.output
    assert [(each.category, each.session) for each in read_set(folder, by="scenario").queries] == [
        ("movie", "movie:0"),
        ("movie", "movie:1"),
    ]
    assert {each.category for each in read_set(folder).queries} == {"membench0"}


def test_a_personamem_reference_is_the_message_that_begins_where_its_tokens_say(tmp_path):
    questions = as_csv(
        persona_question("q1", 6, 4),
        persona_question("q2", 3, 1),
        persona_question("q3", 6, 4, distance_to_ref_in_tokens=1),
    )
    done, folder = convert(tmp_path, "personamem", questions, json.dumps({"c1": CONTEXT}) + "\n")
    assert done.exit_code == 0, done.output
    assert "left out: 1 questions whose reference is no message before them, not scored" in done.stdout
    found = read_set(folder)
    assert [(each.session, dict(each.relevant), each.answer) for each in found.queries] == [
        ("c1:6", {"c1:6:4": 1}, "咖啡"),
        ("c1:3", {"c1:3:1": 1}, "咖啡"),
        ("c1:6", {}, "咖啡"),
    ]


def test_a_personamem_question_sees_only_what_was_said_before_it(tmp_path):
    contexts = json.dumps({"c1": CONTEXT})
    _, folder = convert(
        tmp_path, "personamem", as_csv(persona_question("q1", 6, 4), persona_question("q2", 3, 1)), contexts
    )
    found = read_set(folder).corpus.documents
    assert [each.text for each in found if each.session == "c1:3"] == ["User: I like tea.", "Assistant: Good."]
    assert [each.metadata.get("session_id") for each in found if each.session == "c1:6"] == ["1", "1", "2", "2"]


def test_personamem_v2_labels_the_messages_of_the_snippet(tmp_path):
    other = PERSONA_V2 | {"user_query": "Which food?", "related_conversation_snippet": "", "correct_answer": "Water"}
    done, folder = convert_files(tmp_path, "personamem-v2", write_benchmark(tmp_path, PERSONA_V2, other))
    assert done.exit_code == 0, done.output
    assert "1 questions whose reference is no message before them, not scored" in done.stdout
    found = read_set(folder)
    assert [each.text for each in found.corpus.documents] == ["User: I like tea.", "Assistant: Good.", "Is 7 prime?"]
    assert [(each.text, list(each.relevant), each.category) for each in found.queries] == [
        ("Which drink?", ["kim:1", "kim:2"], "stereotypical_pref"),
        ("Which food?", [], "stereotypical_pref"),
    ]
    lines = [json.loads(line) for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(line["options"][line["choice"]], len(line["options"])) for line in lines] == [("Tea", 3), ("Water", 2)]


def test_a_history_that_was_not_downloaded_is_named(tmp_path):
    outside = PERSONA_V2 | {"chat_history_32k_link": "../kim.json"}
    done, _ = convert_files(tmp_path, "personamem-v2", write_benchmark(tmp_path, outside))
    assert done.exit_code == 1
    assert "benchmark.csv:2: ../kim.json is in no folder that contains the file; download it from" in done.stderr


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"all_options": "(a) Tea"}, ":2: all_options is neither JSON nor Python"),
        ({"correct_answer": "(z)"}, ":2: correct_answer 'z' is none of a, b; download the file again"),
        ({"shared_context_id": "c9"}, ":2: shared_context_id 'c9' is not in"),
        ({"end_index_in_shared_context": "end"}, ":2: end_index_in_shared_context is 'end'; it must be a whole number"),
    ],
)
def test_a_bad_row_of_personamem_is_named_with_its_line(tmp_path, changes, said):
    questions = as_csv(persona_question("q1", 6, 4, **changes))
    done, _ = convert(tmp_path, "personamem", questions, json.dumps({"c1": CONTEXT}))
    assert done.exit_code == 1
    assert said in done.stderr


@pytest.mark.parametrize(
    ("kind", "values", "said"),
    [
        ("membench", ([],), "holds no trajectories by scenario"),
        ("membench", ({"a": {"b": [{"QA": {}}]}},), "[a][b][0]: message_list is missing"),
        (
            "membench",
            ({"a": [{"QA": {}, "message_list": [["x"], [3]]}]},),
            "step 1: is int; a step is text or has user",
        ),
        ("personamem", ("a,b\n1\n", "{}"), ":2: has another number of cells than the first line"),
        ("personamem", ("a,b\n\n", "{}"), "holds no questions"),
        ("personamem", ("a\n1\n", '{"c": [{"role": "user"}]}'), ":1[0]: content is missing"),
        ("personamem", ("a\n1\n", "[]"), "name the questions first, then their shared contexts"),
        ("personamem", ("a\n1\n",), "needs 2"),
        ("personamem-v2", ("a\n1\n",), ":2: chat_history_32k_link is missing"),
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


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("locomo", lambda: (LOCOMO,)),
        ("membench", lambda: (MEMBENCH,)),
        (
            "personamem",
            lambda: (
                as_csv(persona_question("q1", 3, 1, user_question_or_message="Tea?")),
                json.dumps({"c1": CONTEXT}),
            ),
        ),
    ],
)
def test_a_converted_set_runs(tmp_path, kind, values):
    _, folder = convert(tmp_path, kind, *values())
    report, ranking, scored = (tmp_path / name for name in ("report.json", "own.run", "scored.json"))
    options = ["--data", str(folder), "--embedder", "none", "--json", str(report), "--run", str(ranking)]
    done = CliRunner().invoke(app, ["run", *options, "--qrels", str(tmp_path / "qrels.txt")])
    assert done.exit_code == 0, done.output
    assert json.loads(report.read_text(encoding="utf-8"))["metrics"]["recall@5"] == 1.0
    done = CliRunner().invoke(app, ["score", str(ranking), "--data", str(folder), "--json", str(scored)])
    assert done.exit_code == 0, done.output
    assert json.loads(scored.read_text(encoding="utf-8"))["metrics"]["recall@5"] == 1.0


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
