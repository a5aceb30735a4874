"""Weaving stages, layouts and the assembler."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from block_parts import make_block
from hypothesis import given
from hypothesis import strategies as st

from jacquard import BudgetExceededError, GreedyPriorityPruner
from jacquard.core.blocks import FRAME, Position, SkeinTemplate, SlotRule, Stage
from jacquard.core.errors import LayoutError
from jacquard.core.receipt import Action
from jacquard.pipeline.weaving.assemble import assemble, prefix
from jacquard.pipeline.weaving.prompt import complete, lay_out
from jacquard.pipeline.weaving.weave import truncate, weave
from jacquard.templating.layouts import find_layout_ids, load_layout
from mnemosyne import Priority, Ref, Role
from mnemosyne.schema.memory import LoreCategory

ROOT = Path(__file__).parents[2] / "templates"
CLASSIC = load_layout("classic", [ROOT])
CACHE_FIRST = load_layout("cache_first", [ROOT])


def words(text):
    return len(text.split())


def block(name, slot, text="", **more):
    content = text or f"text of {name}"
    return make_block(name, slot, content, **{"priority": Priority.HIGH, "tokens": words(content), **more})


def talk(count):
    roles = (Role.USER, Role.ASSISTANT)
    return [block(f"m{n}", "history", f"line {n}", role=roles[n % 2], rank=count - n) for n in range(count)]


INPUT = block("input", "user_input", "what now", role=Role.USER, priority=Priority.MUST)
SKELETON = [
    block("instruction", "instruction", priority=Priority.MUST),
    block("status", "status", "<status>\nhealth: 85\n</status>", layer="deterministic", volatile=True),
    block("guidance", "guidance", "<guidance>\ngo: on\n</guidance>", layer="deterministic", volatile=True),
]
FLESH = [
    block("flesh:k", "flesh", "<entry>k</entry>", layer="probabilistic", section="knowledge_base", rank=0),
    block("flesh:m", "flesh", "<memory>m</memory>", layer="probabilistic", section="relevant_memories", rank=1),
]


def test_classic_puts_both_streams_into_the_system_text_and_the_input_last():
    woven = weave([*FLESH, *SKELETON], talk(2), INPUT, CLASSIC, {"probabilistic": {"model": "m&m"}})
    made = assemble(woven.skein, words)
    assert [m.role for m in made.messages] == ["system", "user", "assistant", "user"]
    assert made.messages[0].content == (
        "text of instruction\n\n"
        '<context_layer type="deterministic">\n<status>\nhealth: 85\n</status>\n'
        "<guidance>\ngo: on\n</guidance>\n</context_layer>\n\n"
        '<context_layer type="probabilistic" model="m&amp;m">\n<knowledge_base>\n<entry>k</entry>\n</knowledge_base>\n'
        "<relevant_memories>\n<memory>m</memory>\n</relevant_memories>\n</context_layer>"
    )
    assert made.messages[-1].content == "<user_input>\nwhat now\n</user_input>"
    tree = ET.fromstring(made.text)
    assert [child.tag for child in tree] == ["system", "chat_history", "user_input"]


def test_cache_first_keeps_the_system_text_and_history_free_of_what_changes():
    woven = weave([*FLESH, *SKELETON], talk(2), INPUT, CACHE_FIRST)
    made = assemble(woven.skein, words)
    assert [m.role for m in made.messages] == ["system", "user", "assistant", "user"]
    assert made.messages[0].content == "text of instruction"
    last = made.messages[-1].content
    assert (
        last.index("probabilistic") < last.index("deterministic") < last.index("<user_input>\nwhat now\n</user_input>")
    )


def test_cache_first_without_history_still_keeps_the_volatile_tail_in_the_users_message():
    made = assemble(weave(SKELETON, [], INPUT, CACHE_FIRST).skein, words)
    assert [m.role for m in made.messages] == ["system", "user"]
    assert "<status>" in made.messages[1].content


@pytest.mark.parametrize(("depth", "place"), [(0, 3), (1, 2), (3, 0), (9, 0)])
def test_in_history_means_exactly_n_newer_messages(depth, place):
    layout = SkeinTemplate(layout_id="x", rules=(SlotRule(slot="note", position=Position.IN_HISTORY, depth=depth),))
    skein = weave([block("note", "note")], talk(3), INPUT, layout).skein
    assert [b.block.block_id for b in skein.history].index("note") == place


def test_a_higher_priority_stands_nearer_to_the_input():
    rules = tuple(SlotRule(slot=s, position=Position.AFTER_HISTORY, priority=p) for s, p in (("near", 9), ("far", 1)))
    skein = weave(
        [block("n", "near"), block("f", "far")], talk(1), INPUT, SkeinTemplate(layout_id="x", rules=rules)
    ).skein
    assert [b.block.block_id for b in skein.history] == ["m0", "f", "n"]


def test_every_stage_can_be_looked_at():
    woven = weave(SKELETON, talk(2), INPUT, CACHE_FIRST)
    assert [s.stage for s in woven.stages] == [Stage.SKELETON, Stage.ANCHORED, Stage.STITCHED, Stage.DEDUPLICATED]
    assert truncate(woven.skein, {}).stage is Stage.TRUNCATED
    assert truncate(woven.skein, {}).user_input.block == INPUT


def test_the_same_evidence_stands_once():
    twice = [block("a", "flesh", refs=(Ref(evidence_id="e1"),)), block("b", "flesh", refs=(Ref(evidence_id="e1"),))]
    woven = weave(twice, [], INPUT, CLASSIC)
    assert [b.block.block_id for b in woven.skein.system] == ["a"]
    assert [(d.block_id, d.code) for d in woven.dropped] == [("b", "duplicate")]


def test_a_message_that_history_shows_is_not_remembered_as_well():
    said = block("m0", "history", "line 0", role=Role.USER, uri="history/m0")
    woven = weave([block("flesh:m0", "flesh", uri="history/m0")], [said], INPUT, CLASSIC)
    assert [d.code for d in woven.dropped] == ["duplicate"]


def test_an_agent_as_it_is_now_covers_its_encyclopedia_entry_wherever_it_stands():
    book = block("book", "flesh", category=LoreCategory.ENCYCLOPEDIA, entities=("chief",), rank=0)
    now = block("now", "flesh", category=LoreCategory.AGENT, entities=("chief",), rank=1)
    other = block("key", "flesh", category=LoreCategory.ENCYCLOPEDIA, entities=("key", "chief"), rank=2)
    woven = weave([book, now, other], [], INPUT, CLASSIC)
    assert [b.block.block_id for b in woven.skein.system] == ["now", "key"]
    assert woven.dropped[0].code == "covered"


@given(st.permutations([*SKELETON, *FLESH]))
def test_the_order_of_arrival_does_not_matter(blocks):
    expected = assemble(weave([*SKELETON, *FLESH], talk(3), INPUT, CLASSIC).skein, words).text
    assert assemble(weave(blocks, talk(3), INPUT, CLASSIC).skein, words).text == expected


@given(st.integers(0, 12), st.sampled_from([CLASSIC, CACHE_FIRST]), st.integers(20, 200))
def test_spans_cover_the_prompt_and_tokens_add_up(count, layout, limit):
    try:
        made = complete(
            lay_out(
                [*SKELETON, *FLESH],
                talk(count),
                INPUT,
                layout=layout,
                pruner=GreedyPriorityPruner(),
                limit_tokens=limit,
                count=words,
            )
        )
    except BudgetExceededError:
        return
    assembled = made.assembled
    assert assembled.tokens <= limit
    for place, message in enumerate(assembled.messages):
        spans = [s for s in assembled.spans if s.message == place]
        assert [s.start for s in spans] == [0, *[s.end for s in spans[:-1]]]
        assert spans[-1].end == len(message.content)
    kept = sum(d.tokens for d in made.decisions if d.action is Action.KEPT)
    assert kept + sum(s.tokens for s in assembled.spans if s.block_id == FRAME) == assembled.tokens


def test_a_prefix_names_the_block_that_broke_it():
    first = assemble(weave(SKELETON, talk(2), INPUT, CLASSIC).skein, words)
    changed = [
        SKELETON[0],
        block("status", "status", "<status>\nhealth: 60\n</status>", layer="deterministic"),
        SKELETON[2],
    ]
    second = assemble(weave(changed, talk(2), INPUT, CLASSIC).skein, words)
    old = [{"role": m.role, "content": m.content} for m in first.messages]
    broken = prefix(second, old, words)
    assert broken.first_break == "status"
    assert 0 < broken.shared_tokens < broken.total_tokens
    same = prefix(first, old, words)
    assert (same.shared_tokens, same.first_break) == (first.tokens, None)
    alone = prefix(first, [], words)
    assert (alone.shared_tokens, alone.first_break) == (0, None)


def test_layouts_are_data_and_their_faults_are_named(tmp_path):
    assert find_layout_ids([ROOT]) == ("cache_append", "cache_first", "classic", "layers")
    with pytest.raises(LayoutError, match="Known layouts: cache_append, cache_first, classic, layers"):
        load_layout("../../etc/passwd", [ROOT])
    (tmp_path / "layouts").mkdir()
    bad = tmp_path / "layouts" / "mine.yaml"
    bad.write_text("slots:\n  - {slot: a, position: middle}\n", encoding="utf-8")
    with pytest.raises(LayoutError, match=r"mine\.yaml: slots\[0\]\.position: must be one of system"):
        load_layout("mine", [tmp_path, ROOT])
    bad.write_text("slots:\n  - {slot: a, position: system, ordr: 1}\n", encoding="utf-8")
    with pytest.raises(LayoutError, match="unknown key 'ordr'"):
        load_layout("mine", [tmp_path, ROOT])
