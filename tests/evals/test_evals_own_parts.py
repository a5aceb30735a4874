"""Retrievers and selectors of an evaluator: by `module:attribute` and as plugins, typed as a user types them."""

from __future__ import annotations

import json
import sys

import pytest
from rank_bm25 import BM25Okapi
from typer.testing import CliRunner

from evals.app import app
from mnemosyne.retrieval.text.words import word_tokens

TEXTS = [
    "The temple key is under the third stone, left of the gate.",
    "I never liked the temple. The priests there count every coin.",
    "My brother sails to Port Callow on the ninth of May.",
    "Bring me the blue lantern when you come back from the mill.",
    "The miller owes us four sacks of flour since last autumn.",
    "A wolf took two lambs from the northern pasture.",
]
OWN = '''\
from dataclasses import dataclass

from jacquard import Selection
from jacquard import (
    SelectorError,
)
from mnemosyne import Chain
from mnemosyne.schema.memory import session_scope
from mnemosyne import (
    Recall,
)
from evals.running.rank_bm25_retriever import _build_candidate


class Last:
    """Chooses the last candidates of recall."""

    name = "last"

    async def select(self, request, context=None):
        return Selection(entry_ids=tuple(each.entry_id for each in request.candidates[::-1][: request.limit]))


class Told:
    name = "told"

    def __init__(self, argument, *, model):
        self.given = (argument, model)

    async def select(self, request, context=None):
        assert self.given == ("", None)
        raise SelectorError("unreadable", "it never answers")


def make():
    return Last()


ready = Last()


class Newest:
    """Recalls the newest lines of a session, whatever the query."""

    def __init__(self, argument, *, source, embedder):
        self.source, self.synced = source, []

    async def sync(self, scope, progress):
        self.synced.append(scope)

    async def recall(self, query):
        scope = session_scope(query.session_id)
        assert self.synced == [scope]
        page = await self.source.entries_after(scope, Chain.HISTORY, 0, 100)
        newest = sorted(page, key=lambda each: -each.sequence)[: query.limit]
        return Recall(candidates=tuple(_build_candidate(each.entry, float(each.sequence)) for each in newest))


class Nameless:
    async def select(self, request, context=None):
        return Selection(entry_ids=())


class Greedy(Last):
    async def select(self, request, context=None):
        return Selection(entry_ids=tuple(each.entry_id for each in request.candidates))


class Inventive(Last):
    async def select(self, request, context=None):
        return Selection(entry_ids=("nowhere",))


class Hasty(Last):
    def select(self, request, context=None):
        return Selection(entry_ids=())


class Listing(Last):
    async def select(self, request, context=None):
        return []


class Broken(Last):
    async def select(self, request, context=None):
        raise KeyError("weight")


class Demanding(Last):
    def __init__(self, weight):
        pass


class Twice(Newest):
    async def recall(self, query):
        found = (await super().recall(query)).candidates
        return Recall(candidates=(found[0], *found[:1]))


number = 7
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a set of six lines and two queries, next to a module `own` with parts."""
    documents = [
        {"id": f"t:{n}", "chain": "history", "session": "t", "turn": n, "speaker": "Ann", "text": text}
        for n, text in enumerate(TEXTS)
    ]
    queries = [
        {"id": "q1", "session": "t", "query": "Where is the temple key?", "relevant": {"t:0": 1}},
        {"id": "q2", "session": "t", "query": "What does the miller owe us?", "relevant": {"t:4": 1}},
    ]
    for name, rows in (("corpus.jsonl", documents), ("queries.jsonl", queries)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("own", None)


def run(folder, *arguments):
    options = ["--data", folder, "--cache", folder / "cache", "--embedder", "none", "--json", folder / "report.json"]
    return CliRunner().invoke(app, ["run", *map(str, (*options, *arguments))])


def report(folder, *arguments):
    done = run(folder, *arguments)
    assert done.exit_code == 0, done.output
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("written", ["own:Last", "own:make", "own:ready"])
def test_a_selector_is_a_class_or_a_function_that_makes_it_or_an_object(folder, written):
    found = report(folder, "--selector", written)
    for row in found["queries"]:
        assert row["selected"] == row["retrieved"][::-1][:5]
    assert found["config"]["selector"] == written
    assert found["config"]["selector_origin"].startswith("sha256 ")


def test_a_selector_that_gives_up_selects_nothing_for_its_query(folder):
    found = report(folder, "--selector", "own:Told")
    assert found["problems"]["selector_errors"] == {"unreadable": 2}
    assert all(row["selected"] == [] for row in found["queries"])


def test_a_retriever_reads_the_session_and_its_scores_are_in_the_report(folder):
    found = report(folder, "--retriever", "own:Newest", "--k", "3")
    for row in found["queries"]:
        assert row["retrieved"] == ["t:5", "t:4", "t:3"]
        assert row["retrieved_scores"] == sorted(row["retrieved_scores"], reverse=True)
        assert len(row["retrieved_scores"]) == 3
    assert found["config"]["retriever"] == "own:Newest"
    assert found["metrics"]["recall@5"] == 0.5


def test_scores_of_the_shipped_recall_are_in_the_report(folder):
    for row in report(folder)["queries"]:
        assert len(row["retrieved_scores"]) == len(row["retrieved"]) > 0
        assert row["retrieved_scores"] == sorted(row["retrieved_scores"], reverse=True)


def test_the_reference_retriever_ranks_as_the_package_does(folder):
    found = report(folder, "--retriever", "rank-bm25")
    index = BM25Okapi([word_tokens(f"Ann: {text}") for text in TEXTS])
    for row, asked in zip(found["queries"], ("Where is the temple key?", "What does the miller owe us?"), strict=True):
        scores = index.get_scores(word_tokens(asked))
        best = [place for place in sorted(range(6), key=lambda each: -scores[each]) if scores[place] > 0]
        assert row["retrieved"] == [f"t:{place}" for place in best]
        assert row["retrieved_scores"] == pytest.approx([scores[place] for place in best], abs=1e-6)
    assert found["config"]["embedder"] == "none"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--selector", "best"], "no selector 'best'; known: flash, heuristic, oracle, rerank. Plugins bring others"),
        (["--retriever", "best"], "no retriever 'best'; known: bm25, hybrid, rank-bm25, rrf, vector. Plugins bring"),
        (["--selector", "absent:Last"], "no selector 'absent'; known: flash"),
        (["--selector", "own:First"], "the module own has no 'First'; it has: Broken, Demanding, Greedy"),
        (["--selector", "heuristic:3"], "heuristic takes no argument"),
        (
            ["--selector", "own:Nameless"],
            "own:Nameless is not a Selector: Nameless lacks name (see docs/en/plugins.md)",
        ),
        (["--selector", "own:number"], "own:number is not a Selector: int lacks select, name"),
        (["--selector", "own:Demanding"], "cannot be called as SelectorFactory ('', model=…), nor without arguments"),
        (["--retriever", "own:Last"], "own:Last is not a Retriever: Last lacks recall"),
        (["--selector", "own:Greedy", "--retriever", "own:Newest"], "the result has more than 5 ids (t:"),
        (["--selector", "own:Inventive"], "the result has ids that are not candidates (nowhere); rule 1 of Selector"),
        (["--selector", "own:Hasty"], "select is not awaited; write `async def select`"),
        (["--selector", "own:Listing"], "select returned list; it must return a Selection"),
        (["--selector", "own:Broken"], "select failed (KeyError: 'weight', own.py:"),
        (["--retriever", "own:Twice"], "the result has ids twice (t:5); rule 1 of Retriever"),
        (["--model", "openai/x"], "`--model` is for `--selector flash` and for selectors of plugins"),
    ],
)
def test_what_does_not_fit_is_said_in_one_sentence(folder, arguments, told):
    done = run(folder, *arguments)
    assert done.exit_code == 1
    assert told in done.stderr
    assert "Traceback" not in done.output
    assert not (folder / "report.json").exists()


def test_a_module_that_cannot_be_imported_is_named_with_the_reason(folder):
    (folder / "torn.py").write_text("import no_such_package_of_anyone\n", encoding="utf-8")
    done = run(folder, "--selector", "torn:Last")
    assert done.exit_code == 1
    assert "the module torn cannot be imported (ModuleNotFoundError: No module named 'no_such_package" in done.stderr


def test_a_package_that_fails_is_named_with_the_reason(folder):
    (folder / "halting").mkdir()
    (folder / "halting" / "__init__.py").write_text("raise RuntimeError('no weights')\n", encoding="utf-8")
    (folder / "halting" / "parts.py").write_text("", encoding="utf-8")
    done = run(folder, "--selector", "halting.parts:Last")
    assert done.exit_code == 1
    assert "the module halting.parts cannot be imported (RuntimeError: no weights, __init__.py:1)" in done.stderr
    assert "Traceback" not in done.output


def test_a_plugin_is_found_by_its_name_and_its_version_is_kept(folder):
    info = folder / "lasting-2.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lasting\nVersion: 2.1\n", encoding="utf-8")
    entries = "[jacquard.selectors]\ntold = own:Told\n[jacquard.retrievers]\nnewest = own:Newest\n"
    (info / "entry_points.txt").write_text(entries, encoding="utf-8")
    found = report(folder, "--selector", "told", "--retriever", "newest")
    assert found["config"]["selector_origin"] == found["config"]["retriever_origin"] == "lasting 2.1"
    assert found["queries"][0]["retrieved"][0] == "t:5"
    done = run(folder, "--selector", "other")
    assert "known: flash, heuristic, oracle, rerank, told." in done.stderr


def test_a_run_with_a_changed_module_starts_from_the_beginning(folder):
    broken = OWN.replace(
        "return Selection(entry_ids=tuple(each.entry_id for each in request.candidates[::-1][: request.limit]))",
        'if "miller" in request.user_message:\n            raise KeyError("x")\n        return Selection(entry_ids=())',
    )
    (folder / "own.py").write_text(broken, encoding="utf-8")
    assert run(folder, "--selector", "own:Last").exit_code == 1
    assert (folder / "report.json.part").exists()
    sys.modules.pop("own")
    (folder / "own.py").write_text(OWN, encoding="utf-8")
    found = report(folder, "--selector", "own:Last")
    assert found["counts"]["resumed"] == 0
    assert found["queries"][0]["selected"]
