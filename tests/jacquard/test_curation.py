"""Stream B end to end: a real retriever in memory, real selectors, LiteLLM, and a real HTTP server behind it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from block_parts import make_block
from curation_parts import ENTRIES, ListRetriever, turn
from hypothesis import given, settings
from hypothesis import strategies as st
from servers.openai_server import OpenAiServer, closed_port

from filament import escape_text
from jacquard import Selection, SelectionContext, SelectionRequest
from jacquard.adapters.models.litellm_adapter import LiteLlmModel
from jacquard.core.receipt import CurationPath
from jacquard.pipeline.curation.memory_blocks import describe_cuts, render_memories
from jacquard.pipeline.curation.selectors.flash import FlashSelector
from jacquard.pipeline.curation.selectors.heuristic import HeuristicSelector
from jacquard.pipeline.curation.stream import Curation, CurationStream, build_stream_report
from jacquard.pipeline.weaving.weave import weave
from jacquard.templating.layouts import load_layout
from mnemosyne import (
    CalibratedEstimator,
    Chain,
    MemoryEntry,
    Priority,
    Recall,
    Role,
    extract,
)
from mnemosyne.evidence.selectors import ref_hash

pytestmark = pytest.mark.anyio

MANY = tuple(
    MemoryEntry(
        entry_id=f"m{i:02d}",
        scope="session:s",
        chain=Chain.NARRATIVE,
        kind="turn_summary",
        text=f"Summary {i}: the temple key was asked for in place number {i}.",
    )
    for i in range(30)
)


class WordCounter:
    """Counts words and CJK characters."""

    name = "words"

    def estimate(self, text: str) -> int:
        return len(re.findall(r"[a-zA-Z0-9]+|[^\sa-zA-Z0-9]", text))


@pytest.fixture
def server() -> Iterator[OpenAiServer]:
    with OpenAiServer() as running:
        yield running


@pytest.fixture
async def model(server: OpenAiServer) -> AsyncIterator[LiteLlmModel]:
    made = LiteLlmModel("openai/small", api_base=server.api_base)
    yield made
    await made.close()


def stream(model: LiteLlmModel, entries: tuple[MemoryEntry, ...] = ENTRIES, seconds: float = 20.0) -> CurationStream:
    return CurationStream(
        ListRetriever(entries), FlashSelector(model, max_tokens=200, timeout_seconds=seconds), HeuristicSelector()
    )


@pytest.mark.parametrize(
    ("step", "selected", "counts"),
    [
        ("ids:lore_key,p003.summary", ("lore_key", "p003.summary"), {}),
        ("match:钥匙", ("lore_key", "p003.a", "p003.summary"), {}),
        ("object:2", ("p003.a", "lore_key"), {}),
        ("prose:2", ("p003.a", "lore_key"), {"prose": 1}),
        ("empty", (), {"empty": 1}),
        ("ids:lore_key,ghost,lore_key", ("lore_key",), {"unknown_ids": 1, "duplicates": 1}),
        ('text:{"selected": ["lore_key",], }', ("lore_key",), {"repaired": 1}),
    ],
)
async def test_what_the_server_answers_is_chosen(
    server: OpenAiServer, model: LiteLlmModel, step: str, selected: tuple[str, ...], counts: dict[str, int]
) -> None:
    server.set_script(step)
    curation = await stream(model).curate(turn())
    report = build_stream_report(curation)
    assert report.path is CurationPath.SELECTED
    assert set(report.selected) == set(selected)
    assert report.model == "openai/small"
    assert {name: report.counts[name] for name in report.counts if "tokens" not in name} == counts
    assert report.counts["prompt_tokens"] > 0
    assert {c.entry_id: c.code for c in report.candidates} == {
        entry.entry_id: "selected" if entry.entry_id in selected else "not_selected" for entry in ENTRIES
    }


async def test_twenty_ids_are_cut_to_the_limit(server: OpenAiServer, model: LiteLlmModel) -> None:
    server.set_script("many:20")
    curation = await stream(model, MANY).curate(turn("the temple key"))
    assert curation.path is CurationPath.SELECTED
    assert curation.selection.entry_ids == tuple(c.entry_id for c in curation.candidates[:6])
    assert curation.selection.counts["over_limit"] == 14
    assert "14 ids over the limit left out" in curation.reason


@pytest.mark.parametrize(
    ("step", "code", "words"),
    [
        ("rubbish", "unreadable", "no list"),
        ("unknown", "unreadable", "none of the 2 ids"),
        ("status:500", "model_error", "scripted failure"),
        ("status:401", "model_error", "scripted failure"),
        ("html", "model_error", "invalid response"),
        ("drop", "model_error", "Connection error"),
        ("text:", "unreadable", "it is empty"),
    ],
)
async def test_what_cannot_be_used_brings_the_heuristic_and_says_why(
    server: OpenAiServer, model: LiteLlmModel, step: str, code: str, words: str
) -> None:
    server.set_script(step)
    report = build_stream_report(await stream(model).curate(turn()))
    assert report.path is CurationPath.FALLBACK
    assert report.code == code
    assert words in report.reason
    assert 1 <= len(report.selected) <= 6
    assert {c.code for c in report.candidates} <= {"selected", "folded", "below_cut"}
    assert len(server.requests) == 1


async def test_a_refused_connection_brings_the_heuristic() -> None:
    model = LiteLlmModel("openai/small", api_base=f"http://127.0.0.1:{closed_port()}/v1")
    report = build_stream_report(await stream(model).curate(turn()))
    assert (report.path, report.code) == (CurationPath.FALLBACK, "model_error")
    await model.close()


async def test_a_server_that_hangs_meets_the_call_s_own_limit(server: OpenAiServer, model: LiteLlmModel) -> None:
    await model.warm()
    server.set_script("hang")
    report = build_stream_report(await stream(model, seconds=0.2).curate(turn()))
    assert (report.path, report.code) == (CurationPath.FALLBACK, "timeout")


async def test_without_a_model_the_heuristic_chooses_six() -> None:
    curation = await CurationStream(ListRetriever(MANY), None, HeuristicSelector()).curate(turn("the temple key"))
    assert (curation.path, curation.code) == (CurationPath.HEURISTIC, "no_model")
    assert curation.selection.entry_ids == ("m00", "m01", "m02", "m03", "m04", "m05")
    assert curation.model is None
    assert set(curation.timings_ms) == {"recall", "select"}


async def test_a_selector_that_breaks_in_its_own_way_brings_the_heuristic_too() -> None:
    class Broken:
        name = "broken"

        async def select(self, request: SelectionRequest, context: SelectionContext | None = None) -> Selection:
            raise KeyError("oops")

    curation = await CurationStream(ListRetriever(), Broken(), HeuristicSelector()).curate(turn())
    assert (curation.path, curation.code) == (CurationPath.FALLBACK, "internal")
    assert "KeyError" in curation.reason


async def test_nothing_recalled_asks_nobody(server: OpenAiServer, model: LiteLlmModel) -> None:
    told: list[Recall] = []
    curation = await stream(model, ()).curate(turn(), told.append)
    assert (curation.path, curation.code) == (CurationPath.SKIPPED, "nothing_recalled")
    assert len(told) == 1
    assert server.requests == []


async def test_folded_candidates_name_the_one_that_stands_for_them() -> None:
    twins = (
        MemoryEntry(entry_id="a", scope="w", chain=Chain.LORE, kind="agent", text="The elder keeps the temple key."),
        MemoryEntry(entry_id="b", scope="w", chain=Chain.LORE, kind="agent", text="The elder keeps the temple key!"),
    )
    report = build_stream_report(
        await CurationStream(ListRetriever(twins), None, HeuristicSelector()).curate(turn("key"))
    )
    assert {c.entry_id: c.code for c in report.candidates} == {"a": "selected", "b": "folded"}
    assert "which stands for it" in report.candidates[1].reason


def chosen(*entry_ids: str, rationale: str = "") -> Selection:
    return Selection(entry_ids=entry_ids, rationale=rationale, model="openai/small")


def test_flesh_is_rendered_as_the_seed_shows_it() -> None:
    at = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    said = MemoryEntry(
        entry_id="D1:3",
        scope="session:s",
        chain=Chain.HISTORY,
        kind="message",
        title="Caroline",
        speaker="Caroline",
        text="I went to the support group yesterday.",
        depth=3,
        at=at,
        metadata={"onload": "evil", "type": "evil"},
    )
    blocks = render_memories(
        chosen("p003.summary", "lore_key", "D1:3", "q_necklace", "gone", rationale="The input asks <who>."),
        (*ENTRIES, said),
        WordCounter(),
    )
    assert [block.content for block in blocks] == [
        "<rationale>The input asks &lt;who&gt;.</rationale>",
        '<entry id="lore_key" type="encyclopedia">\n  <name>神庙钥匙</name>\n'
        "  <desc>由翡翠雕成的古老钥匙,能开启森林神庙的石门。</desc>\n</entry>",
        '<memory id="p003.summary" turn="3">村长拒绝交出神庙的钥匙。</memory>',
        '<memory id="D1:3" turn="3" at="2023-05-08T13:56Z" speaker="Caroline">'
        "I went to the support group yesterday.</memory>",
        '<memory id="q_necklace">The lost necklace: The necklace was found in the well and given back.</memory>',
    ]
    by_id = {block.block_id: block for block in blocks}
    assert [block.place.section for block in blocks] == [None, "knowledge_base", *["relevant_memories"] * 3]
    assert by_id["flesh:p003.summary"].priority is Priority.HIGH
    assert by_id["flesh:lore_key"].priority is Priority.MEDIUM
    assert by_id["flesh:rationale"].priority is Priority.LOW
    assert [by_id[f"flesh:{name}"].rank for name in ("p003.summary", "lore_key", "D1:3", "q_necklace")] == [0, 1, 2, 3]
    assert by_id["flesh:lore_key"].origin.source == "curation:lore"
    assert by_id["flesh:lore_key"].origin.refs[0].evidence_id == "lore_key"
    assert all(block.tokens == WordCounter().estimate(block.content) for block in blocks)
    places = [block.place for block in blocks]
    assert all(place.layer == "probabilistic" and place.slot == "flesh" and place.volatile for place in places)


def test_a_long_entry_shows_its_first_sentences_and_its_ref_says_which() -> None:
    long = MemoryEntry(
        entry_id="lore_saga",
        scope="world:forest",
        chain=Chain.LORE,
        kind="encyclopedia",
        title="The saga",
        text="The miller & his wife went down to the water. " * 200,
    )
    entries = (*ENTRIES, long)
    first, other = render_memories(chosen("lore_saga", "lore_key"), entries, CalibratedEstimator(), 60)
    assert 60 < first.tokens < 120
    assert first.content.endswith("miller &amp; his wife went down to the water. […]</desc>\n</entry>")
    (ref,) = first.origin.refs
    assert ref.selector is not None
    shown = extract(long.text, ref.selector).text
    assert ref.hash == ref_hash(shown)
    assert f"<desc>{escape_text(shown)} […]</desc>" in first.content
    assert other.origin.refs[0].selector is None
    assert describe_cuts((first, other), entries) == (
        f"text_cut: flesh:lore_saga shows {ref.selector} of {len(long.text)} characters",
    )
    (whole,) = render_memories(chosen("lore_saga"), entries, CalibratedEstimator())
    assert whole.origin.refs[0].selector is None


def test_an_empty_choice_makes_no_blocks() -> None:
    assert render_memories(chosen(rationale="Nothing fits."), ENTRIES, WordCounter()) == ()


def lore(entry_id: str, kind: str, text: str) -> MemoryEntry:
    return MemoryEntry(
        entry_id=entry_id, scope="world:w", chain=Chain.LORE, kind=kind, title="Oda", text=text, entities=("oda",)
    )


BOOK = "Oda has run the inn since the war. <She> sings."


@pytest.mark.parametrize(
    ("order", "now", "covered"),
    [
        (("book", "now"), "Oda counts the keys.", []),
        (("now", "book"), "Oda counts the keys.", ["flesh:book"]),
        (("book", "now"), f"Oda counts the keys. {BOOK}", ["flesh:book"]),
    ],
    ids=["best", "not best", "contained"],
)
def test_the_best_memory_stays_unless_what_covers_it_contains_its_text(
    order: tuple[str, ...], now: str, covered: list[str]
) -> None:
    entries = (lore("book", "encyclopedia", BOOK), lore("now", "agent", now))
    blocks = render_memories(chosen(*order), entries, WordCounter())
    spoken = make_block("input", "user_input", "Who is Oda?", role=Role.USER)
    woven = weave(blocks, [], spoken, load_layout("classic", [Path(__file__).parents[2] / "templates"]))
    assert [(each.block_id, each.code) for each in woven.dropped] == [(name, "covered") for name in covered]


ANY = st.text(max_size=50) | st.sampled_from(
    ["</memory></context_layer>", '" x="', "]]>", "\x1b", "{% x %}", "\u202e<"]
)


@settings(deadline=None)
@given(entry_id=ANY, title=ANY, text=ANY, speaker=ANY, chain=st.sampled_from([Chain.LORE, Chain.HISTORY, Chain.EVENT]))
def test_no_entry_breaks_out_of_its_element(entry_id: str, title: str, text: str, speaker: str, chain: Chain) -> None:
    entry = MemoryEntry(
        entry_id=entry_id, scope="s", chain=chain, kind=title, title=title, text=text, speaker=speaker, depth=1
    )
    (block,) = render_memories(chosen(entry_id), (entry,), WordCounter())
    names = re.findall(r"<(/?[a-z]+)", block.content)
    inner = ["name", "/name"] if title else []
    expected = ["entry", *inner, "desc", "/desc", "/entry"] if chain is Chain.LORE else ["memory", "/memory"]
    assert names == expected
    assert block.content.count("<") == len(names)
    block.content.encode("utf-8")


def test_a_skipped_curation_has_nothing_chosen() -> None:
    curation = Curation.skipped("disabled", "Stream B is switched off.")
    report = build_stream_report(curation)
    assert (report.path, report.selected, report.candidates, report.model) == (CurationPath.SKIPPED, (), (), None)
