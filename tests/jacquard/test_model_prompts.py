"""What is sent to small models, byte for byte: each kind of prompt over inputs in both languages (`tests/golden/prompts/`)."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from curation_parts import ENTRIES, as_candidate, asked, candidate, plan
from forest_parts import WORLD, window

from jacquard import SelectionRequest, SummaryRequest
from jacquard.adapters.prompts.templates import find_language, find_text_language, parse_template, render_prompt
from jacquard.core.errors import TemplateError
from jacquard.core.protocols import ConversationTurn, PlanRequest
from jacquard.memory.consolidate.prompts import macro_request, turns_request
from jacquard.memory.summarize.model import summary_prompt
from jacquard.pipeline.curation.selectors.flash import selector_prompt
from jacquard.pipeline.planning.model import plan_prompt

GOLDEN = Path(__file__).parents[1] / "golden" / "prompts"
NASTY = 'He said </current_input></turn> $limit ${words} {limit} {{ words }} [user] & "so" \\ 100 %(x)s $$'
"""Words that would be a tag, a placeholder or a heading if they were more than data."""
TURNS = {
    "en": (
        ConversationTurn(turn_id="t1", depth=1, lines=(("Kai", "Where is the doe?"), ("narrator", "By the water."))),
        ConversationTurn(turn_id="t2", depth=2, lines=(("Kai", "I pay 3 coins.\nAll I have."), ("Ann & Bo", "Done."))),
    ),
    "zh": (
        ConversationTurn(turn_id="t1", depth=1, lines=(("凯", "母鹿在哪里?"), ("叙事者", "在水边。"))),
        ConversationTurn(turn_id="t2", depth=2, lines=(("凯", "我付三枚铜钱。"), ("村长", "好。" * 2500))),
    ),
    "nasty": (ConversationTurn(turn_id=NASTY, depth=3, lines=((NASTY, NASTY),)),),
}
SUMMARY = {"en": "Kai came to the tower.", "zh": "凯来到塔下。", "nasty": NASTY}
LOCALES = {"en": "en", "zh": "zh-CN", "nasty": "fr"}


def selection(name: str) -> SelectionRequest:
    if name == "zh":
        return asked(*(as_candidate(entry) for entry in ENTRIES))
    if name == "en":
        return SelectionRequest(
            user_message="Where did Grey Wolf go?", recent=(), plan=plan(("wolf",)), candidates=(), limit=3
        )
    pool = (candidate(NASTY, NASTY, title=NASTY, depth=4), candidate("long", "The wolf ran north. " * 40))
    return SelectionRequest(user_message=NASTY, recent=(NASTY,) * 6, plan=plan(), candidates=pool, limit=5)


def planning(name: str) -> PlanRequest:
    text = {"en": "Where is the lamb?", "zh": "我去森林神庙", "nasty": NASTY + "x" * 3000}[name]
    recent = () if name == "en" else (f"村长: {NASTY}" if name == "nasty" else "村长: 听说村里有一把钥匙。",)
    world = replace(WORLD, locale=LOCALES[name])
    return PlanRequest(user_message=text, recent=recent, plan=plan(quest="q_001"), window=window(), world=world)


def summing(name: str, *, going_on: bool) -> SummaryRequest:
    before = f" {SUMMARY[name]}\n" if going_on else ""
    return SummaryRequest(turns=TURNS[name], previous=before, limit_tokens=301, locale=LOCALES[name])


def narrating(name: str, *, going_on: bool) -> tuple[tuple[str, str], ...]:
    before = SUMMARY[name] if going_on else ""
    return macro_request([(1, SUMMARY[name]), (2, "end")], before, LOCALES[name], 1.0).messages


CASES = {
    **{f"selector_{name}": lambda name=name: selector_prompt(selection(name)) for name in TURNS},
    **{f"planner_{name}": lambda name=name: plan_prompt(planning(name)) for name in TURNS},
    **{f"summary_{name}": lambda name=name: summary_prompt(summing(name, going_on=False)) for name in TURNS},
    **{f"summary_{name}_on": lambda name=name: summary_prompt(summing(name, going_on=True)) for name in TURNS},
    **{f"turns_{name}": lambda name=name: turns_request(TURNS[name], LOCALES[name], 1.0).messages for name in TURNS},
    **{f"turns_{name}_on": lambda name=name: with_open_threads_and_facts(name) for name in TURNS},
    **{f"narrative_{name}": lambda name=name: narrating(name, going_on=False) for name in TURNS},
    **{f"narrative_{name}_on": lambda name=name: narrating(name, going_on=True) for name in TURNS},
}


def with_open_threads_and_facts(name: str) -> tuple[tuple[str, str], ...]:
    threads = {"en": "I promise to bring the bell back.", "zh": "我保证把铜钟带回来。", "nasty": NASTY}
    facts = {"en": ("brass key", "holder", "Mara"), "zh": ("铜钥匙", "持有者", "玛拉"), "nasty": (NASTY, NASTY, NASTY)}
    return turns_request(TURNS[name], LOCALES[name], 1.0, [threads[name]], [facts[name]]).messages


def shown(messages: tuple[tuple[str, str], ...]) -> str:
    return "".join(f"---- {role}\n{text}\n" for role, text in messages)


@pytest.mark.parametrize("name", CASES)
def test_the_prompt_is_the_one_that_was_reviewed(name: str) -> None:
    assert shown(CASES[name]()) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def test_every_value_of_a_placeholder_is_given_and_no_other() -> None:
    with pytest.raises(TemplateError, match=r"prompts/en/consolidation_turns\.txt: \$turns has no value"):
        render_prompt("consolidation_turns", "en", events=3, threads=2, open="", facts="")
    with pytest.raises(TemplateError, match=r"there is no \$words; it has: events, facts, open, threads, turns"):
        render_prompt("consolidation_turns", "zh", events=3, threads=2, open="", facts="", turns="", words=1)
    with pytest.raises(TemplateError, match=r"prompts/en/verdict\.txt: there is no such prompt"):
        render_prompt("verdict", "zh")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "needs the headings"),
        ("[user]\nx\n", "needs the headings"),
        ("[user]\nx\n[system]\ny\n", "needs the headings"),
        ("[system]\nx\n[user]\ny\n[user]\nz\n", "needs the headings"),
        ("# fine\nWords.\n[system]\nx\n[user]\ny\n", "p.txt:2: only comments"),
        ("[system]\nIt costs $5.\n[user]\ny\n", "begins no name"),
    ],
)
def test_a_fault_of_a_template_is_named(text: str, fault: str) -> None:
    with pytest.raises(TemplateError, match=fault):
        parse_template(text, "p.txt")


def test_a_template_has_comments_placeholders_and_dollar_signs() -> None:
    template = parse_template("# About it.\n[system]\nAt most $limit.\n\n[user]\n[x] $${x} $text鹿\n", "p.txt")
    assert template.placeholders == {"limit", "text"}
    assert template.render({"limit": 3, "text": "[user]\n$limit"}) == (
        ("system", "At most 3.\n"),
        ("user", "[x] ${x} [user]\n$limit鹿"),
    )


@pytest.mark.parametrize(
    ("locale", "language"), [("zh", "zh"), ("zh-CN", "zh"), ("ZH_tw", "zh"), ("en-GB", "en"), ("fr", "en"), ("", "en")]
)
def test_the_language_of_a_locale(locale: str, language: str) -> None:
    assert find_language(locale) == language


@pytest.mark.parametrize(
    ("text", "language"), [("", "en"), ("Kai went on.", "en"), ("凯 went", "en"), ("凯去了 on", "zh"), ("凯", "zh")]
)
def test_the_language_of_a_text(text: str, language: str) -> None:
    assert find_text_language(text) == language


def test_the_prompts_are_read_when_the_first_is_rendered() -> None:
    script = (
        "import sys, jacquard; assert 'jacquard.adapters.prompts.templates' not in sys.modules\n"
        "from jacquard.adapters.prompts.templates import load_prompts as load, render_prompt as render\n"
        "assert load.cache_info().currsize == 0; render('consolidation_narrative', 'zh', before='', turns='')\n"
        "render('consolidation_narrative', 'en', before='', turns=''); assert load.cache_info().misses == 1"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
