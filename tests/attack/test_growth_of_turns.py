"""Hostile inputs cost time that grows with their length and not faster: turns, evidence and ops. Texts by themselves, whatever they
are given to, are measured in `tests/attack/test_growth_of_texts.py`.

Processor time is compared between two sizes, the best of three each: four times the size may take twelve times the time, where
linear work takes four times and quadratic work sixteen. The sizes are those at which the work takes some milliseconds. The large
size is tried again only where its time was above the limit.
"""

from __future__ import annotations

import json
import unicodedata
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from time import process_time

import pytest
from generators import GENERATORS
from hypothesis import given
from hypothesis import strategies as st
from servers.scripted_model import ScriptedModel

from filament import apply_patch, judge_ops
from jacquard import (
    BudgetConfig,
    CurationConfig,
    HistoryConfig,
    RuntimeConfig,
    create_context_engine,
    open_runtime,
)
from mnemosyne import Evidence, EvidenceSource, EvidenceType, MemoryStore, SourceKind, ToolCall
from mnemosyne.core.normal_forms import normal_form

FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
WIDE = RuntimeConfig(budget=BudgetConfig(max_input_tokens=3_000_000), history=HistoryConfig(max_tokens=1_000_000))
TIMES, MOST = 4, 12

MESSAGES = (
    "capitals behind half of it",
    "marks on one letter",
    "quotes that nobody closes",
    "blanks",
    "possessives",
    "weapons that hit nobody",
    "negations of nothing",
    "numerals",
)


async def grows_gently(seconds, size):
    """Compare what `seconds` returns for a size and for `TIMES` that size."""
    few = min([await seconds(size) for _ in range(3)])
    await is_below(seconds, TIMES * size, MOST * few)


async def is_below(seconds, argument, limit):
    spent = []
    while len(spent) < 3 and not (spent and min(spent) < limit):
        spent.append(await seconds(argument))
    assert min(spent) < limit, (
        f"it took {min(spent):.4f} s, which is {MOST * min(spent) / limit:.1f} times the small one"
    )


def seconds_of(work, make):
    """Return what `grows_gently` needs of work that is no coroutine."""

    async def seconds(size):
        argument = make(size)
        started = process_time()
        work(argument)
        return process_time() - started

    return seconds


@asynccontextmanager
async def played(message, *, reply="Yes.", config=WIDE, world=None):
    """A session in which a message was said and answered; gives the engine, the store and the seconds that both took."""
    store = MemoryStore()
    try:
        async with create_context_engine(store, config=config) as engine:
            await engine.prepare_turn("s", "Hello.")
            await engine.commit_assistant_message("s", "Hi.")
            started = process_time()
            await engine.prepare_turn("s", message)
            await engine.commit_assistant_message("s", reply)
            yield engine, store, process_time() - started
    finally:
        await store.close()


@pytest.mark.anyio
@pytest.mark.parametrize("generator", MESSAGES)
async def test_a_turn_costs_as_much_as_its_message_is_long(generator):
    async def seconds(size):
        """Return the processor time of the turn that the message is said in and of the one behind it."""
        async with played(GENERATORS[generator](size)) as (engine, _, spent):
            started = process_time()
            await engine.prepare_turn("s", "And then?")
            return spent + process_time() - started

    # The small sizes are those that took seconds once; the large ones show how what is left grows.
    for size in (600, 8_000):
        await grows_gently(seconds, size)


@pytest.mark.anyio
@pytest.mark.parametrize("reply", ["「", "“a", "a。", '"'])
async def test_a_summary_without_a_model_costs_as_much_as_the_talk_is_long(reply):
    short = replace(
        WIDE, history=HistoryConfig(max_messages=2), summary=replace(WIDE.summary, preserve_recent_messages=0)
    )
    short = replace(short, summary=replace(short.summary, trigger_message_count=1))

    async def seconds(size):
        async with played("Tell me.", reply=reply * size, config=short) as (engine, _, _):
            started = process_time()
            turn = await engine.prepare_turn("s", "And then?")
            await engine.commit_assistant_message("s", "Nothing.")
            turn = await engine.prepare_turn("s", "Then?")
            spent = process_time() - started
            assert turn.package.working_summary
        return spent

    await grows_gently(seconds, 6_000)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "answer",
    ["```" + "\n" * 6_000 + "x", "```" + " " * 6_000 + "x", "<think>" * 1_000, "<thinking>" * 700],
    ids=["newlines in a fence", "blanks in a fence", "thoughts", "more thoughts"],
)
async def test_a_strange_answer_of_a_small_model_costs_a_turn_next_to_nothing(answer):
    """What took minutes takes no more than a turn whose model answers plainly, many times over."""
    config = replace(WIDE, curation=CurationConfig(deadline_ms=60_000))

    async def seconds(said):
        store = MemoryStore()
        try:
            async with create_context_engine(store, llm_adapter=ScriptedModel(said), config=config) as engine:
                await engine.prepare_turn("s", "The lamb is in the fold.")
                await engine.commit_assistant_message("s", "So it is.")
                for text in ("The lamb sleeps.", "Where is the lamb?"):
                    started = process_time()
                    await engine.prepare_turn("s", text)
                    await engine.commit_assistant_message("s", "In the fold.")
                await engine.settle(60)
                return process_time() - started
        finally:
            await store.close()

    plain = min([await seconds("[]") for _ in range(3)])
    await is_below(seconds, answer, MOST * plain)


LINES = {
    "rules": lambda size: "-" * size,
    "quotes": lambda size: ">" * size,
    "blanks": lambda size: " " * size + "x",
    "colons": lambda size: "a:" * (size // 2),
    "claims": lambda size: "name: value\n" * (size // 12),
    "json": lambda size: json.dumps([{"id": "x", f"Price {n}": n, f"PRICE {n}": -n} for n in range(size // 30)]),
}


@pytest.mark.anyio
@pytest.mark.parametrize("make", LINES.values(), ids=LINES)
async def test_looking_for_conflicts_costs_as_much_as_the_evidence_is_long(make):
    source = EvidenceSource(kind=SourceKind.TOOL, name="read")

    async def seconds(size):
        async with played("Look.") as (engine, store, _):
            for number in range(2):
                evidence = Evidence(
                    evidence_id=f"e{number}",
                    type=EvidenceType.TOOL_RESULT,
                    source=source,
                    content=make(size),
                    metadata={"subject": "door"},
                )
                await store.put_evidence("s", evidence)
            started = process_time()
            await engine.prepare_turn("s", "And now?")
            return process_time() - started

    for size in (500, 30_000):
        await grows_gently(seconds, size)


RESULTS = {
    "addresses": lambda size: "a@b.co " * (size // 7),
    "escaped quotes": lambda size: '\\"' * (size // 2),
    "escaped texts": lambda size: '"x\\n" a@b.co ' * (size // 13),
    "placeholders": lambda size: "[redacted:email] a@b.co " * (size // 24),
    "marks": lambda size: "a" + "\u0316\u0301" * (size // 2),
}


@pytest.mark.anyio
@pytest.mark.parametrize("make", RESULTS.values(), ids=RESULTS)
async def test_a_tool_result_is_redacted_in_the_time_of_its_length(make):
    async def seconds(size):
        async with played("Look.") as (engine, _, _):
            started = process_time()
            await engine.record_tool_call("s", ToolCall(tool_call_id="c", tool="read"), result=make(size))
            return process_time() - started

    await grows_gently(seconds, 8_000)


def tree_of(things):
    return {
        "hero": {"id": "hero", "gold": 1},
        "bag": {"_anchor": "bag", "items": [{"id": f"it{n}"} for n in range(things)]},
    }


OPS = {
    "numbers": (lambda count: [["ADD", "hero.gold", 1]] * count, 0),
    "new fields": (lambda count: [["SET", f"hero.f{n}", n] for n in range(count)], 0),
    "new things": (lambda count: [["SET", f"hero.f{n}", {"id": f"n{n}"}] for n in range(count)], 0),
    "things without ids": (lambda count: [["PUSH", "bag", {"name": "coin"}]] * count, 0),
    "words in a list": (lambda count: [["SET", "hero.log", ["a"]], *([["PUSH", "hero.log", "b"]] * count)], 0),
    "things that are known": (lambda count: [["SET", f"it{n}.name", "old"] for n in range(count)], 1),
    "things that go": (lambda count: [["POP", "bag"]] * count, 1),
    "names that nobody bears": (lambda count: [["SET", f"nobody{n}.name", 1] for n in range(count)], 1),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("make", "things"), OPS.values(), ids=OPS)
async def test_many_small_ops_are_judged_in_the_time_of_their_number(make, things):
    def judged(count):
        return judge_ops(tree_of(things * count), make(count))

    await grows_gently(seconds_of(judged, lambda count: count), 300)


@pytest.mark.anyio
async def test_a_log_of_ops_is_played_in_the_time_of_its_length():
    def played_again(count):
        return apply_patch({"log": []}, [{"op": "add", "path": f"/f{n}", "value": n} for n in range(count)])

    await grows_gently(seconds_of(played_again, lambda count: count), 4_000)


_MARKS = (
    "".join(char for char in map(chr, range(0x300, 0x1100)) if unicodedata.combining(char))
    + "\u0f73\uff9e\uff9f\u3099\u0344\u1d165"
)


@given(st.lists(st.text("aé각각ﬁ\u0f40" + _MARKS[::7], max_size=50), max_size=6).map("".join))
def test_normal_forms_are_those_of_unicode(text):
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert normal_form(form, text) == unicodedata.normalize(form, text)


@given(st.text(_MARKS, min_size=31, max_size=120))
def test_long_runs_of_marks_are_put_in_the_order_of_unicode(marks):
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert normal_form(form, f"a{marks}b") == unicodedata.normalize(form, f"a{marks}b")


@pytest.mark.anyio
async def test_the_world_of_the_examples_plans_a_long_input_in_the_time_of_its_length():
    async with open_runtime("memory:", world=FOREST, embedder="none", config=WIDE) as runtime:
        await runtime.ensure_session("s")

        async def seconds(size):
            started = process_time()
            await runtime.engine.prepare_turn("s", f"{started} " + "I ask Lena of the key. " * (size // 22))
            return process_time() - started

        await grows_gently(seconds, 8_000)
