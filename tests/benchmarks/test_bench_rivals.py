"""The comparison with other stacks: what runs without them, and the stacks themselves where they are installed."""

from __future__ import annotations

import json
import re
import zlib
from importlib import import_module
from pathlib import Path

import anyio
import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.rivals.child import documents_of, select_talk, watch_network
from benchmarks.rivals.figures import sum_figures
from benchmarks.rivals.names import (
    ENTRANTS,
    EXTRA,
    NAMES,
    OURS,
    SETUPS,
    Entrant,
    choose_entrants,
    find_entrant,
    find_missing_packages,
    find_setup,
)
from benchmarks.rivals.page import make_tables, translate_tables
from benchmarks.rivals.show import show
from benchmarks.rivals.stacks.stack import Lines, TurnRequest, find_missing, normalise_spaces, split_words
from evals.errors import SetupError
from evals.metrics import TOKEN_METRICS
from evals.running.plain_rrf import score_reciprocal_ranks
from mnemosyne import Chain
from mnemosyne.formats.corpora.corpus import CorpusDocument

SAID = (
    "The silver key hangs behind the mill.",
    "Nobody has seen the falcon since spring.",
    "那把银钥匙挂在磨坊后面。",
    "The ferryman wants seven coins & <no> less.",
    "A storm took the roof of the granary.",
    "The bell of the chapel is cracked.",
    "We should leave before dawn.",
    "Agreed, I will wake you.",
)


class WordVectors:
    """Vectors made of words, so that what shares words is near."""

    def documents(self, texts):
        return np.stack([self.query(text) for text in texts])

    def query(self, text):
        row = np.full(384, 1e-3, dtype=np.float32)
        for word in split_words(text):
            row[zlib.crc32(word.encode()) % 384] += 1.0
        return row / np.linalg.norm(row)


def documents():
    return tuple(
        CorpusDocument(
            document_id=f"d{place}",
            chain=Chain.HISTORY,
            text=text,
            line=place + 1,
            speaker="Mara" if place % 2 else "Wen",
        )
        for place, text in enumerate(SAID)
    )


def stack_of(name):
    module, _, kind = find_entrant(name).place.partition(":")
    return getattr(import_module(module), kind)(WordVectors())


async def check_stack(stack):
    everything = documents()
    talk = select_talk(everything, 2)
    await stack.index(everything, talk)
    found = await stack.recall("Where is the silver key?", 3)
    assert found[0] == "d0"
    assert len(found) <= 6
    turn = await stack.turn(TurnRequest(query="What does the ferryman want, coins?", limit=2, tokens=200))
    assert turn.ranked[0] == "d3"
    assert not set(turn.ranked) & {"d6", "d7"}, "what the talk shows is not recalled again"
    assert turn.evidence[0][0] == "d3"
    assert len(turn.evidence) <= 2
    assert find_missing(turn, {each.document_id: each.text for each in everything}) == []
    assert all(normalise_spaces(each.text) in turn.text for each in talk)
    assert turn.messages[0][0] == "system"
    assert turn.messages[-1][0] == "user"
    assert "ferryman want" in turn.messages[-1][1]
    small = await stack.turn(TurnRequest(query="What does the ferryman want, coins?", limit=2, tokens=1))
    assert small.evidence == ()
    await check_commits(stack)
    await stack.close()


async def check_commits(stack):
    for query, reply in (
        ("Does the otter guard the sunken bell tower?", "It does, and it bites."),
        ("Who feeds it?", "A monk called Ambrose."),
        ("What shall we do now?", "Wait for the rain to end."),
    ):
        turn = await stack.turn(TurnRequest(query=query, limit=2, tokens=200))
        assert query in turn.messages[-1][1]
        await stack.commit(query, reply)
        await stack.settle()
    turn = await stack.turn(TurnRequest(query="And the monk Ambrose, the otter, the bell tower?", limit=3, tokens=200))
    newest = [normalise_spaces(text) for text in ("What shall we do now?", "Wait for the rain to end.")]
    history = [normalise_spaces(content) for _, content in turn.messages[1:-1]]
    assert [any(text in said for said in history) for text in newest] == [True, True]
    assert "Does the otter guard" in turn.text, "what was said is recalled once it is no longer shown"
    assert not any("Does the otter guard" in said for said in history)
    assert len(turn.evidence) == 3


@pytest.mark.parametrize("name", ["by-hand", "plain-vector"])
def test_a_stack_by_hand_keeps_the_rules(name):
    anyio.run(check_stack, stack_of(name))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [each.name for each in ENTRANTS if each.framework])
def test_a_framework_keeps_the_rules(name):
    if (fault := find_missing_packages(find_entrant(name))) is not None:
        pytest.skip(fault)
    anyio.run(check_stack, stack_of(name))


def test_what_is_not_installed_is_told_with_the_extra():
    absent = Entrant(name="absent", place="nowhere:Absent", needs=("no-such-distribution-here",), how="")
    fault = find_missing_packages(absent)
    assert fault is not None
    assert "no-such-distribution-here" in fault
    assert EXTRA in fault
    with pytest.raises(SetupError, match="choose from ours, langchain"):
        choose_entrants(["rome"])
    entrants, left_out = choose_entrants([])
    assert {each.name for each in entrants} | set(left_out) == set(NAMES)
    assert entrants[0].name == OURS


def test_a_framework_that_is_named_and_absent_ends_the_run():
    absent = [each.name for each in ENTRANTS if find_missing_packages(each) is not None]
    if not absent:
        pytest.skip("every stack is installed here")
    done = CliRunner().invoke(app, ["rivals", "--only", absent[0]])
    assert done.exit_code == 1
    assert f'pip install ".[local,evals,{EXTRA}]"' in done.stderr


def test_words_and_fusion():
    assert split_words("The silver key, 银钥匙x2!") == ["the", "silver", "key", "银钥", "钥匙", "x2"]
    assert [*score_reciprocal_ranks([["a", "b"], ["b", "c"]])] == ["b", "a", "c"]
    lines = Lines(documents(), documents()[-2:])
    assert lines.drop_shown(["d6", "d0"]) == ("d0",)
    assert [name for name, _ in lines.within(["d0", "d1", "d2"], 2, 1000)] == ["d0", "d1"]


def test_talk_begins_with_the_user_and_made_up_talk_is_seeded():
    everything = documents_of({"talk": 21})
    assert everything == documents_of({"talk": 21})
    newest = select_talk(everything, 8)
    assert newest[0].speaker == everything[0].speaker
    assert newest == everything[-len(newest) :]
    assert select_talk((), 8) == ()


def test_addresses_beyond_this_machine_are_noted():
    found: list[str] = []
    hook = watch_network(found)
    hook("socket.connect", (None, ("127.0.0.1", 80)))
    hook("socket.connect", (None, "/run/some.socket"))
    hook("open", ("file",))
    assert found == []
    hook("socket.getaddrinfo", ("telemetry.example", 443))
    hook("socket.connect", (None, ("192.0.2.7", 443)))
    assert found == ["socket.getaddrinfo telemetry.example", "socket.connect 192.0.2.7"]


def row(stack, kind, ms, **more):
    return {
        "part": "set",
        "kind": kind,
        "stack": stack,
        "query": "q1",
        "category": "",
        "relevant": {"a": 1, "b": 1},
        "ms": ms,
        "embed_ms": 4.0,
        "processor_ms": ms,
        "ranked": ["a", "c", "b"],
        "evidence": [["a", 200], ["b", 100]],
        "prompt_tokens": 500,
        "not_in_prompt": [],
        "talk_not_in_prompt": [],
        "memory_mb": 100.0,
        **more,
    }


def test_figures_hold_ratios_and_scores():
    rows = [
        row(name, kind, ms)
        for name, ms in ((OURS, 5.0), ("haystack", 50.0), ("langchain", 25.0))
        for kind in ("narrow", "wide")
    ]
    found = sum_figures(rows, [])
    assert found["played"] == {}
    best = found["fastest_framework"]
    assert (best["stack"], best["ratio"], best["ratio_beyond"]) == ("langchain", 5.0, 21.0)
    quality = found["quality"][OURS]
    assert quality["recall@5"] == 1.0
    assert (quality["recall@250tok"], quality["recall@500tok"]) == (0.5, 1.0)
    assert found["memory_mb"][OURS] == 100.0


def test_real_turns_are_summed_with_their_commits():
    rows = []
    for name, ms in ((OURS, 10.0), ("langchain", 20.0)):
        for number in range(3):
            rows += [
                row(name, "commit", 2.0 * ms, behind_ms=5.0, number=number),
                row(name, "real", ms, number=number),
                row(name, "fixed", ms / 2, number=number),
                row(name, "at_once", 3 * ms, number=number),
            ]
    found = sum_figures(rows, [])
    assert found["turns"] == {}
    ours, other = found["played"][OURS], found["played"]["langchain"]
    assert (ours["real"]["ms_p50"], ours["at_once"]["ms_p50"], ours["real_to_fixed"]) == (10.0, 30.0, 2.0)
    assert (ours["commit_ms_p50"], ours["commit_behind_ms_p50"]) == (20.0, 5.0)
    assert (ours["whole_ms_p50"], other["whole_processor_ms_p50"]) == (30.0, 60.0)


def test_a_setup_is_found_by_its_name():
    assert OURS not in {name for setup in SETUPS for name in setup.stacks}
    assert {name for setup in SETUPS for name in setup.stacks} == set(NAMES) - {OURS}
    with pytest.raises(SetupError, match="choose from shipped, durable, one-encoder"):
        find_setup("rome")


def test_the_whole_comparison_runs_by_hand_and_keeps_every_measurement(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    corpus = [
        {"id": each.document_id, "chain": "history", "session": "s", "speaker": each.speaker, "text": each.text}
        for each in documents()
    ]
    queries = [
        {"id": "q1", "session": "s", "query": "Where is the silver key?", "history": [], "relevant": {"d0": 1}},
        {"id": "q2", "session": "s", "query": "Who saw the falcon?", "history": [], "relevant": {"d1": 1}},
        {"id": "q3", "session": "s", "query": "What of the granary?", "history": [], "relevant": {"d4": 1}},
    ]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    file = tmp_path / "out" / "figures.json"
    options = ["--sizes", 0, "--rate", 4, "--history", 2, "--turns", 1, "--setups", "shipped", "--embedder", "made-up"]
    scores = tmp_path / "scores" / "rivals.json"
    command = ["rivals", "--data", folder, "--only", "by-hand", *options, "--cache", tmp_path, "--json", file]
    command += ["--quality", scores]
    done = CliRunner().invoke(app, [*map(str, command)])
    assert done.exit_code == 0, done.output
    assert "beyond embedding" in done.stdout
    figures = json.loads(file.read_text(encoding="utf-8"))
    assert set(figures["setups"]) == {"shipped"}
    found = figures["setups"]["shipped"]
    parts = ("turns", "played", "quality", "rate")
    assert all(set(found[part]) == {OURS, "by-hand"} for part in parts)
    assert figures["left_out"] == found["left_out"] == {}
    assert figures["network"] == {}
    # Three queries, narrow and wide, and one real turn: a commit, the turn, one at the same place, one right after a commit.
    assert len([each for each in found["rows"] if each["part"] == "set"]) == (3 * 2 + 4) * 2
    assert all(each["not_in_prompt"] == 0 for part in ("played", "quality") for each in found[part].values())
    assert figures["machine"]["cores"] >= 1
    kept = json.loads(scores.read_text(encoding="utf-8"))
    assert set(kept["setups"]["shipped"]) == {OURS, "by-hand"}
    assert kept["setups"]["shipped"][OURS]["recall@5"] == round(found["quality"][OURS]["recall@5"], 5)
    assert not {"machine", "rows", "load"} & set(kept)
    show(figures, Console(width=170, quiet=True))
    check_page(file, tmp_path / "page.md")


def check_page(figures, page):
    names = ("machine", "place shipped", "quality shipped", "rate shipped", "recall shipped 1000")
    page.write_text("".join(f"<!-- table: {name} -->\nformer\n<!-- end -->\n" for name in names), encoding="utf-8")
    done = CliRunner().invoke(app, ["rivals", "--from", str(figures), "--write", str(page)])
    assert done.exit_code == 0, done.output
    assert "'recall shipped 1000'" in done.stderr
    tables = page.read_text(encoding="utf-8").split("<!-- end -->\n")
    assert "| interpreter | 3." in tables[0]
    assert all("| by-hand |" in table and "former" not in table for table in tables[1:4])
    assert tables[4] == "<!-- table: recall shipped 1000 -->\nformer\n"


def test_every_table_of_the_page_is_one_that_a_whole_run_makes():
    figures = {
        "count": 1,
        "ms_p50": 2.0,
        "ms_p95": 3.0,
        "processor_ms_p50": 2.0,
        "beyond_ms_p50": 1.0,
        "beyond_ms_p95": 1.0,
    }
    played = {"real": figures, "at_once": figures, "commit_ms_p50": 1.0, "commit_behind_ms_p50": 1.0}
    played |= {"whole_ms_p50": 3.0, "whole_processor_ms_p50": 3.0, "real_to_fixed_processor": 1.0}
    stack = {"recall": figures, "index_seconds": 1.0, "memory_mb": 100.0}
    names = (OURS, "langchain", "llamaindex", "langchain-sqlite")
    size = {"stacks": dict.fromkeys(names, stack), "played": dict.fromkeys(names, played)}
    quality = dict.fromkeys(
        ("recall@5", "ndcg@5", "recall@50", *TOKEN_METRICS, "prompt_recall@5", "prompt_tokens"), 0.5
    )
    rate = {"documents_a_second": 9.0, "bare_documents_a_second": 10.0, "share_of_bare": 0.9}
    setup = {
        "turns": {OURS: figures | {"embed_ms_p50": 1.0}},
        "memory_mb": {},
        "quality": {OURS: quality},
        "rate": {OURS: rate},
    }
    setup |= {"sizes": {"1000": size, "100000": size}, "left_out": {}}
    made = make_tables(
        {
            "setups": {each.name: setup for each in SETUPS},
            "machine": {"cpu": "c", "cores": 2, "memory_gb": 4, "python": "3.11"},
            "load": {"before": 0.1, "after": 0.2},
            "config": {"embedder": "m", "data": None, "session": None},
            "stacks": {},
            "versions": {},
            "left_out": {},
            "network": {},
        }
    )
    page = (Path(__file__).parents[2] / "docs" / "en" / "bench.md").read_text(encoding="utf-8")
    wanted = re.findall(r"<!-- table: (.+?) -->\n", page)
    assert {"machine", "aims"} < {*wanted} <= {*made}
    assert made["aims"].count("\n") == 2 + 8
    assert "| 1.00 (langchain) | no |" in made["aims"]


@pytest.mark.full
def test_sizes_are_asked_one_beside_the_other(tmp_path):
    file = tmp_path / "figures.json"
    options = ["--sizes", "40,60", "--queries", 2, "--turns", 2, "--rate", 0, "--history", 2, "--embedder", "made-up"]
    command = ["rivals", "--only", "plain-vector", "--setups", "shipped", *options, "--json", file]
    done = CliRunner().invoke(app, [*map(str, command)])
    assert done.exit_code == 0, done.output
    figures = json.loads(file.read_text(encoding="utf-8"))["setups"]["shipped"]
    assert figures["turns"] == {}
    assert list(figures["sizes"]) == ["40", "60"]
    for found in figures["sizes"].values():
        assert set(found["stacks"]) == {OURS, "plain-vector"}
        assert all(each["recall"]["count"] == 2 for each in found["stacks"].values())
        assert all(each["real"]["count"] == each["at_once"]["count"] == 2 for each in found["played"].values())


@pytest.mark.parametrize("sizes", ["many", "5", "0,100", "-10"])
def test_sizes_that_make_no_sense_are_refused(sizes):
    assert CliRunner().invoke(app, ["rivals", "--sizes", sizes]).exit_code == 2


def test_the_chinese_page_has_the_tables_of_the_english_one():
    docs = Path(__file__).parents[2] / "docs"
    english, chinese = ((docs / language / "bench.md").read_text(encoding="utf-8") for language in ("en", "zh"))
    assert translate_tables(english, chinese) == chinese
    heads = [cell for line in re.findall(r"-->\n(\|.*)\n", chinese) for cell in line.strip("| ").split(" | ")]
    assert [cell for cell in heads if re.search(r"[a-z]{2} [a-z]", cell)] == []
