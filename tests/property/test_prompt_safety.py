"""No text from outside gets out of its place in a whole prompt: not as a tag, not out of its YAML value, not as a template."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filament import clean_text, load_yaml
from jacquard import GreedyPriorityPruner, PlanContext, RuntimeConfig, Selection
from jacquard.core.plan import SearchIntent, Triage
from jacquard.pipeline.curation.memory_blocks import render_memories
from jacquard.pipeline.skeleton.automation import AutomationStream
from jacquard.pipeline.turn import Turn
from jacquard.pipeline.weaving.prompt import complete, lay_out
from jacquard.templating import find_shipped_templates
from jacquard.templating.layouts import load_layout
from mnemosyne import (
    Author,
    AuthorKind,
    CalibratedEstimator,
    Chain,
    MemoryEntry,
    Message,
    Role,
    Summary,
    Task,
    TaskStatus,
)
from mnemosyne.schema.record import PathSummary, SessionWindow
from mnemosyne.schema.session import BranchSpan, SessionHead, WindowMessage
from mnemosyne.schema.world import Injection, PlannerRules, WorldPack

SHIPPED = find_shipped_templates()
LAYOUTS = [load_layout(name, [SHIPPED]) for name in ("classic", "cache_first", "cache_append")]
ESTIMATOR = CalibratedEstimator()
STREAM_A = AutomationStream(ESTIMATOR, SHIPPED)
HEAD = SessionHead(
    session_id="s", world_id="w", branch_id="main", turn_id="t1", depth=1, version=1,
    lineage=(BranchSpan(branch_id="main", upto_depth=1),),
)  # fmt: skip

FRAGMENTS = [
    "</status>", "<guidance>", "</context_layer>", "<![CDATA[", "]]>", "<!--", "-->", "<?xml version='1.0'?>", "&amp;",
    "&lt;", "&#60;",
    "{{ 7 * 7 }}", "{% for x in range(9) %}", "{# no #}", "${jndi}", "\n", "\r\n", "\t", ": ", " #", "- ", "? ",
    "|\n", ">-\n", "---\n",
    "...\n", "&a", "*a", "!!python/object:os.system", "%YAML", "@", "`", "'", '"', "\\", "{", "}", "[", "]", ",", "null",
    "true", "0x1F",
    "1e3", "~", "=", "<<", "\u202e", "\u2066", "\u200f", "\u2028", "\u2029", "\x85", "\ufeff", "\x00", "\x1b[31m", "\x07", "\ud800",
    "\uffff", "😀", "神庙", "钥匙", "</user_input>", "</root>", "<system>", "a b", " ", "",
]  # fmt: skip
hostile = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=6)), max_size=6).map("".join)


def plan(goal):
    intent = SearchIntent(enabled=True)
    return PlanContext(
        triage=Triage.NARRATIVE,
        active_quest_id="q1",
        current_goal=goal,
        template_id="chat",
        search_intent=intent,
        injections=("inj",),
    )


def world(name, lore):
    axiom = MemoryEntry(entry_id="ax", scope="world:w", chain=Chain.LORE, kind="axiom", text=lore, title=name)
    rule = MemoryEntry(
        entry_id="di", scope="world:w", chain=Chain.LORE, kind="directive", text=lore, metadata={"constant": True}
    )
    return WorldPack(
        world_id="w", title=name, locale="en", instruction=lore, persona={"name": name, "voice": lore}, state={}, entities=(),
        lore=(axiom, rule), actions=(), planner=PlannerRules(), prologue=(), narratives=(), digest="d", user_name=name,
        injections=(Injection(injection_id="inj", text=lore, title=name),),
    )  # fmt: skip


def state(name, lore):
    quest = {
        "id": "q1",
        "title": name,
        "status": "active",
        "objectives": [{"id": "o1", "text": lore, "status": "active"}],
    }
    return {
        "hero": {"id": "hero", "name": name, "health": [85, lore], "note": lore},
        "bag": {"_anchor": "bag", "items": [{"id": "item_1", "name": name, "count": 1}]},
        "quests": {"q1": quest},
    }


def window(name, said, tree):
    messages = tuple(
        WindowMessage(
            message=Message(role=role, content=said, message_id=f"t1.{n}", author=Author(kind=AuthorKind.USER, id=name)),
            turn_id="t1", branch_id="main", depth=1,
        )
        for n, role in enumerate((Role.USER, Role.ASSISTANT))
    )  # fmt: skip
    told = PathSummary(turn_id="t1", branch_id="main", depth=1, summary=Summary(content=said))
    tasks = (Task(task_id=name, name=said, error=name, status=TaskStatus.FAILED),)
    return SessionWindow(head=HEAD, messages=messages, state=tree, summary=told, tasks=tasks)


def prompt(layout, name, lore, said, typed):
    tree = state(name, lore)
    request = Turn(
        plan=plan(lore),
        window=window(name, said, tree),
        world=world(name, lore),
        message=Message(role=Role.USER, content=typed),
        config=RuntimeConfig(),
    )
    skeleton = STREAM_A.render(request)
    entries = (
        MemoryEntry(entry_id=f"k{name}", scope="world:w", chain=Chain.LORE, kind="encyclopedia", text=lore, title=name),
        MemoryEntry(
            entry_id=f"m{said}",
            scope="session:s",
            chain=Chain.HISTORY,
            kind="message",
            text=said,
            speaker=name,
            depth=1,
        ),
    )
    chosen = Selection(entry_ids=tuple(entry.entry_id for entry in entries), rationale=lore)
    flesh = render_memories(chosen, entries, ESTIMATOR)
    return complete(
        lay_out(
            [*skeleton.blocks, *flesh],
            skeleton.history,
            skeleton.user_input,
            layout=layout,
            pruner=GreedyPriorityPruner(),
            limit_tokens=10**6,
            count=ESTIMATOR.estimate,
            layer_attributes={"probabilistic": {"model": name}},
        )
    ).assembled


def shape(node):
    return (node.tag, [shape(child) for child in node])


def check(name, lore, said, typed):
    for layout in LAYOUTS:
        said = said if clean_text(said).strip() else "s"  # a blank message is not shown
        made = prompt(layout, name or "n", lore or "l", said, typed or "t")
        plain = prompt(layout, "n", "l", "s", "t")
        root = ET.fromstring(made.text)
        assert shape(root) == shape(ET.fromstring(plain.text))
        assert [m.role for m in made.messages] == [m.role for m in plain.messages]
        for message, model in zip(made.messages, plain.messages, strict=True):
            body = ET.fromstring(f"<m>{message.content}</m>")
            assert shape(body) == shape(ET.fromstring(f"<m>{model.content}</m>"))
        shown = load_yaml(root.find(".//status").text)
        assert shown["hero"]["name"] == _kept(name or "n")
        assert shown["hero"]["note"] == _kept(lore or "l")
        assert list(shown) == ["hero", "bag"]
        assert load_yaml(root.find(".//active_quests").text)[0]["title"] == _kept(name or "n")
        (task,) = load_yaml(root.find(".//todo").text)["open"]
        assert task == {name: _line(text) for name, text in (("id", name or "n"), ("name", said))} | {
            "status": "failed",
            "error": _line(name or "n"),
        }
        assert _text(root.find("user_input")) == clean_text(typed or "t").strip()


def _kept(text):
    """A YAML value carries everything but what no encoding can."""
    return text.encode("utf-8", "replace").decode() if "\ud800" not in text else text.replace("\ud800", "\ufffd")


def _line(text):
    return _kept(" ".join(text.split()))


def _text(node):
    return "".join(node.itertext()).strip()


@given(hostile, hostile, hostile, hostile)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_text_gets_out_of_its_place(name, lore, said, typed):
    check(name, lore, said, typed)


@pytest.mark.full
@given(hostile, hostile, hostile, hostile)
@settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_text_of_ten_thousand_gets_out_of_its_place(name, lore, said, typed):
    check(name, lore, said, typed)


def test_a_template_in_a_text_is_shown_as_it_is():
    made = prompt(LAYOUTS[0], "{{ 7 * 7 }}", "{% if 1 %}x{% endif %}", "{{ config }}", "{{ ''.__class__ }}")
    assert "49" not in made.text
    assert "{{ 7 * 7 }}" in made.text
    assert made.text.count("{% if 1 %}x{% endif %}") >= 5, (
        "axiom, directive, scheduled text, state and quest among them"
    )
    assert '<directive id="inj">{% if 1 %}x{% endif %}</directive>' in made.text


def test_the_folder_of_templates_is_the_repositorys():
    assert (Path(SHIPPED) / "chat" / "template.yaml").is_file()
