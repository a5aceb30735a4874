"""What is sent to small models, byte for byte: each kind of prompt over inputs in both languages (`tests/golden/prompts/`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from curation_parts import ENTRIES, as_candidate, asked, candidate, plan
from forest_parts import WORLD, window

from jacquard import ConversationTurn, PlanRequest, SelectionRequest, SummaryRequest
from jacquard.memory.consolidate.prompts import macro_request, turns_request
from jacquard.memory.summarize.prompts import summary_prompt
from jacquard.pipeline.curation.selectors.flash import selector_prompt
from jacquard.pipeline.planning.model import plan_prompt, template_ids

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
            user_text="Where did Grey Wolf go?", recent=(), plan=plan(("wolf",)), candidates=(), limit=3
        )
    pool = (candidate(NASTY, NASTY, title=NASTY, depth=4), candidate("long", "The wolf ran north. " * 40))
    return SelectionRequest(user_text=NASTY, recent=(NASTY,) * 6, plan=plan(), candidates=pool, limit=5)


def planning(name: str) -> PlanRequest:
    text = {"en": "Where is the lamb?", "zh": "我去森林神庙", "nasty": NASTY + "x" * 3000}[name]
    recent = () if name == "en" else (f"村长: {NASTY}" if name == "nasty" else "村长: 听说村里有一把钥匙。",)
    world = replace(WORLD, locale=LOCALES[name])
    return PlanRequest(user_text=text, recent=recent, plan=plan(quest="q_001"), window=window(), world=world)


def summing(name: str, *, going_on: bool) -> SummaryRequest:
    before = f" {SUMMARY[name]}\n" if going_on else ""
    return SummaryRequest(turns=TURNS[name], previous=before, limit_tokens=301, locale=LOCALES[name])


def narrating(name: str, *, going_on: bool) -> tuple[tuple[str, str], ...]:
    before = SUMMARY[name] if going_on else ""
    return macro_request([(1, SUMMARY[name]), (2, "end")], before, LOCALES[name], 1.0).messages


CASES = {
    **{f"selector_{name}": lambda name=name: selector_prompt(selection(name)) for name in TURNS},
    **{f"planner_{name}": lambda name=name: plan_prompt(planning(name), template_ids(WORLD)) for name in TURNS},
    **{f"summary_{name}": lambda name=name: summary_prompt(summing(name, going_on=False)) for name in TURNS},
    **{f"summary_{name}_on": lambda name=name: summary_prompt(summing(name, going_on=True)) for name in TURNS},
    **{f"turns_{name}": lambda name=name: turns_request(TURNS[name], LOCALES[name], 1.0).messages for name in TURNS},
    **{f"narrative_{name}": lambda name=name: narrating(name, going_on=False) for name in TURNS},
    **{f"narrative_{name}_on": lambda name=name: narrating(name, going_on=True) for name in TURNS},
}


def shown(messages: tuple[tuple[str, str], ...]) -> str:
    return "".join(f"---- {role}\n{text}\n" for role, text in messages)


@pytest.mark.parametrize("name", CASES)
def test_the_prompt_is_the_one_that_was_reviewed(name: str) -> None:
    assert shown(CASES[name]()) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
