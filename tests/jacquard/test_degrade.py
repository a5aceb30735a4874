"""What pruners decide to degrade is carried out, and no prompt ever overflows: preflight and emergency cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import anyio
import pytest
from block_parts import make_block
from hypothesis import given
from hypothesis import strategies as st

from filament import escape_text, unescape
from jacquard import (
    BlockDecision,
    BudgetConfig,
    BudgetExceededError,
    ConfigError,
    CurationConfig,
    GreedyPriorityPruner,
    PruneConfig,
    PruneRules,
    RuntimeConfig,
    SummarizerError,
    SummaryRequest,
    SummaryText,
    open_runtime,
)
from jacquard.core.blocks import MESSAGE_OVERHEAD_TOKENS, Block, Sensitivity, SkeinTemplate, place_block, sensitivity_of
from jacquard.core.receipt import Action
from jacquard.pipeline.truncation import truncate_sentences, truncate_with_size
from jacquard.pipeline.weaving.degrade import WITHHELD, apply_degradations
from jacquard.pipeline.weaving.packing import estimate_short_tokens
from jacquard.pipeline.weaving.policies import choose_pruner, rules_of, tier_tokens_of
from jacquard.pipeline.weaving.prompt import EMERGENCY, complete, lay_out
from jacquard.pipeline.weaving.pruners.degrade import DegradeToSummaryPruner
from jacquard.pipeline.weaving.shorten import SummarizingShortener
from mnemosyne import BlockType, CalibratedEstimator, Message, Priority, Role, SessionStart
from mnemosyne.schema.record import ImportedTurn

pytestmark = pytest.mark.anyio
COUNT = CalibratedEstimator().estimate
LAYOUT = SkeinTemplate(layout_id="bare", rules=())
LONG = "The miller keeps the key under a stone. He told nobody but the priest. 钥匙在石头下面。神父也知道。 " * 6


def memory(name: str, content: str, count: Callable[[str], int] = COUNT, **more) -> Block:
    return make_block(name, "flesh", content, tokens=count(content), **more)


def said(name: str, text: str, **more) -> Block:
    content = escape_text(text)
    fields = {"slot": "history", "block_type": BlockType.CONVERSATION, "role": Role.USER, **more}
    return make_block(name, content=content, tokens=COUNT(content), **fields)


INPUT = said("user_input", "Where is the key?", priority=Priority.MUST, slot="user_input")


def order(block: Block, tokens: int = 0, code: str = "shortened"):
    placed = place_block(block)
    decision = BlockDecision(
        block_id=block.block_id, action=Action.DEGRADED, code=code, reason="r", tokens=tokens or placed.tokens
    )
    return (placed, decision)


@given(st.text(max_size=400), st.integers(0, 60))
def test_a_lead_is_a_beginning_and_fits(text, limit):
    try:
        short = truncate_sentences(text, limit, COUNT)
    except SummarizerError:
        return
    assert COUNT(short) <= limit or not short
    assert text.strip().startswith(short.removesuffix(" […]"))


def test_a_lead_ends_with_a_sentence_where_one_fits():
    assert truncate_sentences(LONG, 30, COUNT).startswith("The miller keeps the key under a stone.")
    assert truncate_sentences(LONG, 30, COUNT).endswith("[…]")
    assert truncate_sentences("  short  ", 30, COUNT) == "short"


@given(st.text(max_size=300), st.integers(1, 40))
def test_an_opening_is_a_beginning_of_the_text_and_says_where_it_ends(text, limit):
    shown, chars = truncate_with_size(text, limit, COUNT)
    assert COUNT(shown) <= limit + 2 or (shown, chars) == ("[…]", 0)
    if chars == len(text):
        assert shown == text
    else:
        assert shown.endswith("[…]")
        assert text[:chars].strip() == shown.removesuffix("[…]").removesuffix(" ").strip()


def test_an_opening_reads_no_more_than_it_may_show():
    read = []

    def count(text):
        read.append(len(text))
        return COUNT(text)

    shown, chars = truncate_with_size("The wheel turns slowly. " * 40_000, 50, count)
    assert max(read) <= 50 * 8 + 4
    assert shown == ("The wheel turns slowly. " * 40_000)[:chars] + " […]"


async def test_an_element_keeps_its_tags_and_says_that_it_is_shortened():
    block = memory("flesh:m1", f'<memory id="m1" speaker="Ann &amp; Bo">{escape_text(LONG + "<b> & so")}</memory>')
    carried = await apply_degradations([order(block, 60)], count=COUNT, shortener=None)
    short = carried.blocks["flesh:m1"]
    assert short.content.startswith('<memory shortened="true" id="m1" speaker="Ann &amp; Bo">The miller')
    assert short.content.endswith("[…]</memory>")
    assert short.shortened
    assert short.tokens == COUNT(short.content) <= 60


async def test_talk_is_shortened_with_its_overhead_counted():
    block = said("m1", LONG)
    carried = await apply_degradations([order(block, 40)], count=COUNT, shortener=None)
    short = carried.blocks["m1"]
    assert short.tokens == COUNT(short.content) + MESSAGE_OVERHEAD_TOKENS <= 40
    assert unescape(short.content).endswith("[…]")


class Babbler:
    """Answers at length, or not at all."""

    name = "babbler"

    def __init__(self, answer: str | None) -> None:
        self.answer = answer

    async def shorten(self, text: str, limit_tokens: int) -> str:
        if self.answer is None:
            raise SummarizerError("the model did not answer")
        return self.answer


@pytest.mark.parametrize("answer", ["word " * 500, "", None])
async def test_a_shortener_that_fails_is_replaced_by_the_first_sentences(answer):
    block = said("m1", LONG)
    carried = await apply_degradations([order(block, 40)], count=COUNT, shortener=Babbler(answer))
    assert unescape(carried.blocks["m1"].content).startswith("The miller keeps")
    assert carried.blocks["m1"].tokens <= 40
    assert [each.code for each in carried.degradations] == ([] if answer is not None else ["shorten_failed"])


class Sleeper(Babbler):
    """Never answers."""

    async def shorten(self, text: str, limit_tokens: int) -> str:
        await anyio.sleep_forever()
        return ""


async def test_a_shortener_that_hangs_holds_no_turn():
    orders = [order(said("m1", LONG), 40), order(said("m2", LONG), 40), order(memory("m", "x"), code="masked")]
    carried = await apply_degradations(orders, count=COUNT, shortener=Sleeper(None), within_seconds=0.05)
    assert list(carried.blocks) == ["m1", "m2", "m"]
    assert unescape(carried.blocks["m2"].content).startswith("The miller keeps")
    assert [each.code for each in carried.degradations] == ["shorten_late"]


class Counting:
    """A summarizer that counts how often it is asked."""

    name = "counting"

    def __init__(self) -> None:
        self.asked: list[SummaryRequest] = []

    async def summarize(self, request: SummaryRequest) -> SummaryText:
        self.asked.append(request)
        return SummaryText(content=" The key is under a stone. ")


async def test_the_engines_summarizer_shortens_and_is_asked_once_a_text():
    summarizer = Counting()
    shortener = SummarizingShortener(summarizer)
    for _ in range(2):
        block = said("m1", LONG)
        carried = await apply_degradations([order(block, 40)], count=COUNT, shortener=shortener)
        assert carried.blocks["m1"].content == "The key is under a stone."
    (asked,) = summarizer.asked
    assert asked.turns[0].lines[0][1] == LONG.strip()
    assert asked.limit_tokens < 40
    with pytest.raises(SummarizerError, match="does not fit"):
        await shortener.shorten(LONG, 0)


async def test_what_a_shortener_writes_is_data():
    block = said("m1", LONG)
    carried = await apply_degradations([order(block, 60)], count=COUNT, shortener=Babbler("</memory><root>"))
    assert carried.blocks["m1"].content == "&lt;/memory&gt;&lt;root&gt;"


@pytest.mark.parametrize("level", list(Sensitivity)[1:])
@pytest.mark.parametrize(
    "content",
    [
        '<memory id="m" speaker="Ann">The heir of the king is Kai; write to ann@example.com, please.</memory>',
        '<entry id="m">\n  <name>The heir</name>\n  <desc>Kai is the king\'s son.</desc>\n</entry>',
    ],
)
async def test_a_guarded_text_is_withheld_whole_whatever_else_could_be_masked_in_it(content, level):
    block = memory("m", content, sensitivity=level)
    carried = await apply_degradations([order(block, code="masked")], count=COUNT, shortener=None)
    shown = carried.blocks["m"].content
    assert WITHHELD in shown
    assert not any(word in shown for word in ("heir", "king", "Kai", "example", "Ann"))
    assert carried.blocks["m"].origin.title == "memory"


def test_what_cannot_be_degraded_is_dropped():
    blocks = [memory("a", LONG), memory("b", LONG)]
    limit = COUNT(LONG) + 60
    laid = lay_out(blocks, [], INPUT, layout=LAYOUT, pruner=DegradeToSummaryPruner(), limit_tokens=limit, count=COUNT)
    assert [decision.code for _, decision in laid.orders][-1:] == ["shortened"]
    prompt = complete(laid)
    gone = [d for d in prompt.decisions if d.action is Action.DROPPED]
    assert {d.code for d in gone} == {"not_shortened"}
    assert prompt.assembled.tokens <= limit


def awkward(text: str) -> int:
    """A counter that gives whole messages more than the sum of their pieces."""
    return COUNT(text) + (len(text) > 60) * 25


@pytest.mark.parametrize("limit", range(150, 900, 50))
def test_a_prompt_that_counts_more_than_its_blocks_is_cut_and_not_sent(limit):
    blocks = [memory(f"b{n}", f"<memory>{LONG[: 40 + n]}</memory>", awkward, rank=n) for n in range(20)]
    prompt = complete(
        lay_out(blocks, [], INPUT, layout=LAYOUT, pruner=GreedyPriorityPruner(), limit_tokens=limit, count=awkward)
    )
    counted = sum(awkward(m.content) + MESSAGE_OVERHEAD_TOKENS for m in prompt.assembled.messages)
    assert max(counted, prompt.assembled.tokens) <= limit
    assert len(prompt.decisions) == 21
    kept = [d.block_id for d in prompt.decisions if d.action is Action.KEPT]
    cut = [d for d in prompt.decisions if d.code == EMERGENCY]
    assert kept[-1] == "user_input"
    assert all("counted more" in d.reason for d in cut)
    again = complete(
        lay_out(blocks, [], INPUT, layout=LAYOUT, pruner=GreedyPriorityPruner(), limit_tokens=limit, count=awkward)
    )
    assert again.decisions == prompt.decisions


def test_the_emergency_cut_happens():
    blocks = [memory(f"b{n}", f"<memory>{LONG[:30]}</memory>", awkward, rank=n) for n in range(4)]
    exact = complete(
        lay_out(blocks, [], INPUT, layout=LAYOUT, pruner=GreedyPriorityPruner(), limit_tokens=10_000, count=awkward)
    )
    cut = complete(
        lay_out(
            blocks,
            [],
            INPUT,
            layout=LAYOUT,
            pruner=GreedyPriorityPruner(),
            limit_tokens=exact.assembled.tokens,
            count=awkward,
        )
    )
    gone = [(d.block_id, d.code) for d in cut.decisions if d.action is Action.DROPPED]
    assert gone == [("b2", EMERGENCY), ("b3", EMERGENCY)]


def test_must_blocks_that_overflow_when_counted_whole_are_an_error():
    must = [memory(f"b{n}", LONG[:50], awkward, priority=Priority.MUST) for n in range(4)]
    limit = sum(awkward(block.content) for block in must) + awkward(INPUT.content) + 20
    with pytest.raises(BudgetExceededError, match="b0"):
        complete(
            lay_out(must, [], INPUT, layout=LAYOUT, pruner=GreedyPriorityPruner(), limit_tokens=limit, count=awkward)
        )


# --- by configuration ---


def test_a_configuration_names_its_pruner():
    config = RuntimeConfig(prune=PruneConfig(policy="degrade_to_summary"))
    assert isinstance(choose_pruner(config), DegradeToSummaryPruner)
    own = GreedyPriorityPruner()
    assert choose_pruner(config, own) is own
    assert choose_pruner(RuntimeConfig(prune=PruneConfig(policy="mine")), {"mine": own}) is own
    with pytest.raises(ConfigError, match=r"prune\.policy: there is no pruner 'magic'; known: degrade_to_summary"):
        choose_pruner(RuntimeConfig(prune=PruneConfig(policy="magic")))


def test_wrong_rules_are_refused_by_name():
    with pytest.raises(ConfigError, match=r"PruneConfig\.ttl_seconds: urgent: is no setting; there are must, high"):
        PruneConfig(ttl_seconds={"urgent": 5})
    with pytest.raises(ConfigError, match=r"PruneConfig\.must_keep_priorities: is 'top', but must be one of must"):
        PruneConfig(must_keep_priorities=("must", "top"))
    with pytest.raises(ConfigError, match="max_sensitivity: is 'cosmic', but must be one of public"):
        PruneConfig(max_sensitivity="cosmic")
    with pytest.raises(ConfigError, match=r"BudgetConfig\.tier_tokens: top: is no setting"):
        BudgetConfig(tier_tokens={"top": 5})
    with pytest.raises(ConfigError, match=r"BudgetConfig\.tier_tokens: low: is -5; it must be 0 or more"):
        BudgetConfig(tier_tokens={"low": -5})
    assert tier_tokens_of(RuntimeConfig(budget=BudgetConfig(tier_tokens={"low": 5}))) == {Priority.LOW: 5}
    assert rules_of(RuntimeConfig(prune=PruneConfig(must_keep_priorities=())), None) == PruneRules()


def talked(turns: int) -> SessionStart:
    """A session of long speeches."""
    return SessionStart(
        session_id="s",
        world_id="",
        locale="en",
        state={},
        turns=tuple(
            ImportedTurn(
                turn_id=f"t{n}",
                messages=(
                    Message(role=Role.USER, content=f"Question {n}. {LONG}"),
                    Message(role=Role.ASSISTANT, content=f"Answer {n}. {LONG}"),
                ),
            )
            for n in range(turns)
        ),
    )


async def test_an_engine_shortens_and_says_so(tmp_path):
    budget = BudgetConfig(max_input_tokens=1900, reserved_reply_tokens=100)
    config = RuntimeConfig(
        budget=budget, curation=CurationConfig(enabled=False), prune=PruneConfig(policy="degrade_to_summary")
    )
    async with open_runtime(str(tmp_path), embedder="none", config=config) as runtime:
        await runtime.import_session(talked(6))
        turn = await runtime.engine.prepare_turn("s", "And now?")
        tight = replace(config, budget=replace(budget, tier_tokens={"high": 200}))
        cut = await runtime.engine.prepare_turn("s", "And now?", tight, turn_id="other")
        with pytest.raises(ConfigError, match="magic"):
            await runtime.engine.prepare_turn("s", "And?", replace(config, prune=PruneConfig(policy="magic")))
    assert {d.code for d in turn.report.decisions} == {"must", "fits"}
    shortened = [d for d in cut.report.decisions if d.code == "shortened"]
    assert len(shortened) == 2
    assert cut.text.count("[…]") == 2
    assert sum(d.tokens for d in shortened) <= 200
    assert sum(span.tokens for span in cut.report.spans) == cut.report.budget.used_tokens <= 1800


async def test_the_room_that_a_pruner_leaves_is_enough_for_tags_and_words():
    opened = '<memory id="p011.a" turn="11" at="2026-01-01T08:00Z" speaker="The Storyteller">'
    for length in (60, 120, 300, 900):
        block = memory("m", f"{opened}{escape_text((LONG * 9)[:length])}</memory>")
        tokens = estimate_short_tokens(place_block(block), PruneRules())
        carried = await apply_degradations([order(block, tokens)], count=COUNT, shortener=None)
        assert carried.blocks["m"].tokens <= max(tokens, block.tokens)
        assert carried.degradations == ()


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, Sensitivity.PUBLIC),
        ({"sensitivity": "internal"}, Sensitivity.INTERNAL),
        ({"sensitivity": ["x"]}, Sensitivity.SECRET),
    ],
)
def test_metadata_say_how_guarded_a_text_is(told, expected):
    assert sensitivity_of(told) is expected


async def test_sensitivity_of_an_entry_reaches_the_prompt():
    guarded = memory("m", "<memory>Call 555-0100</memory>", sensitivity=Sensitivity.SECRET)
    laid = lay_out(
        [guarded],
        [],
        INPUT,
        layout=LAYOUT,
        pruner=GreedyPriorityPruner(),
        limit_tokens=500,
        count=COUNT,
        rules=PruneRules(max_sensitivity=Sensitivity.INTERNAL),
    )
    carried = await apply_degradations(laid.orders, count=COUNT, shortener=None)
    prompt = complete(laid, carried.blocks)
    assert WITHHELD in prompt.assembled.text
    assert "555" not in prompt.assembled.text
    assert prompt.decisions[0].code == "masked"
