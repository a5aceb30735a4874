"""The comparison with other stacks: what runs without them, and the stacks themselves where they are installed."""

from __future__ import annotations

import json
import zlib
from importlib import import_module

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
    Entrant,
    choose_entrants,
    find_entrant,
    find_missing_packages,
)
from benchmarks.rivals.show import show
from benchmarks.rivals.stacks.stack import Lines, TurnRequest, find_missing, normalise_spaces, split_words
from evals.errors import SetupError
from evals.running.plain_rrf import score_reciprocal_ranks
from mnemosyne import Chain, CorpusDocument

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
    await stack.close()


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
    assert f"jacquard-context[local,evals,{EXTRA}]" in done.stderr


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
    best = found["fastest_framework"]
    assert (best["stack"], best["ratio"], best["ratio_beyond"]) == ("langchain", 5.0, 21.0)
    quality = found["quality"][OURS]
    assert quality["recall@5"] == 1.0
    assert (quality["recall@250tok"], quality["recall@500tok"]) == (0.5, 1.0)
    assert found["memory_mb"][OURS] == 100.0


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
    ]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    file = tmp_path / "out" / "figures.json"
    options = ["--sizes", 0, "--rate", 4, "--history", 2, "--embedder", "made-up"]
    command = ["rivals", "--data", folder, "--only", "by-hand", *options, "--cache", tmp_path, "--json", file]
    done = CliRunner().invoke(app, [*map(str, command)])
    assert done.exit_code == 0, done.output
    assert "beyond embedding" in done.stdout
    figures = json.loads(file.read_text(encoding="utf-8"))
    assert set(figures["turns"]) == set(figures["quality"]) == set(figures["rate"]) == {OURS, "by-hand"}
    assert figures["left_out"] == {}
    assert figures["network"] == {}
    assert len([each for each in figures["rows"] if each["part"] == "set"]) == 2 * 2 * 2
    assert all(found["not_in_prompt"] == 0 for found in figures["quality"].values())
    assert figures["machine"]["cores"] >= 1
    show(figures, Console(width=170, quiet=True))


@pytest.mark.full
def test_sizes_are_asked_one_beside_the_other(tmp_path):
    file = tmp_path / "figures.json"
    options = ["--sizes", "40,60", "--queries", 2, "--rate", 0, "--history", 2, "--embedder", "made-up"]
    done = CliRunner().invoke(app, [*map(str, ["rivals", "--only", "plain-vector", *options, "--json", file])])
    assert done.exit_code == 0, done.output
    figures = json.loads(file.read_text(encoding="utf-8"))
    assert figures["turns"] == {}
    assert list(figures["sizes"]) == ["40", "60"]
    for found in figures["sizes"].values():
        assert set(found["stacks"]) == {OURS, "plain-vector"}
        assert all(each["recall"]["count"] == each["turn"]["count"] == 2 for each in found["stacks"].values())


@pytest.mark.parametrize("sizes", ["many", "5", "0,100", "-10"])
def test_sizes_that_make_no_sense_are_refused(sizes):
    assert CliRunner().invoke(app, ["rivals", "--sizes", sizes]).exit_code == 2
