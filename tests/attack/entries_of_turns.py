"""Entry points of a turn: replies of models, ops, escaping, and the planning of an input."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from typing import Any

from entry_points import EXAMPLES, LIMITS, MEASURED_CHARS, Run, entry, plan_of

from filament import (
    FilamentError,
    StreamParser,
    clean_text,
    dump_yaml,
    escape_attribute,
    escape_text,
    judge_ops,
    load_yaml,
    load_yaml_marked,
    parse_element,
    parse_reply,
    scalar,
    unescape,
    with_anchors,
)
from filament.boundaries import show_text, split_content
from jacquard import JacquardError
from jacquard.core.names import NameDictionary, find_mentions, normalise
from jacquard.core.protocols import PlanRequest
from jacquard.core.sentences import parse_sentence, render_sentence, translate
from jacquard.pipeline.curation.recall_query import find_searched_text
from jacquard.pipeline.planning.actions import MAX_INPUT_CHARS, read_input
from jacquard.pipeline.planning.model import plan_prompt, read_plan
from jacquard.pipeline.planning.reading import read_input_words
from jacquard.pipeline.planning.rules import RulePlanner, find_quiet, guess_names
from mnemosyne import load_world
from mnemosyne.chains.quantities import calculate, read_number
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.session import SessionHead

# --- filament: replies, escaping, YAML, ops ---------------------------------------------------------------------------

_RAW_TAG = re.compile(r"</?state_update|</?filament_output", re.IGNORECASE)


@entry("reply", LIMITS.reply_chars)
def read_reply(text: str) -> None:
    reply = parse_reply(text)
    assert reply.content == clean_text(reply.content)


def stream_in(size: int) -> Run:
    def stream(text: str) -> None:
        parser, events = StreamParser(), []
        for at in range(0, len(text), size):
            events += parser.feed(text[at : at + size])
        reply = parser.close()
        whole = parse_reply(text)
        assert replace(reply, tail=()) == replace(whole, tail=())
        assert parser.scanned_chars <= 600 * len(text) + 600

    return stream


for _size in (1, 7, 4096):
    entry(f"reply in pieces of {_size}", LIMITS.reply_chars)(stream_in(_size))


@entry("quoted update", LIMITS.user_message_chars)
def read_quoted(text: str) -> None:
    ops = json.dumps([["SET", "hero.note", text[:200]], ["ADD", "hero.gold", 1]])
    for user_text in (text, f"{text}<state_update>{ops}</state_update>"):
        reply = parse_reply(f"<content>Yes.</content><state_update>{ops}</state_update>", user_text=user_text)
        assert reply.content == "Yes."
        assert not (ops in user_text and reply.ops)


@entry("reply that repeats the user", LIMITS.user_message_chars)
def read_echo(text: str) -> None:
    reply = parse_reply(f"<content>x</content>{text}", user_text=text)
    assert not reply.ops


@entry("escaping", LIMITS.tool_result_chars)
def escape(text: str) -> None:
    said, inside = escape_text(text), escape_attribute(text)
    assert "<" not in said
    assert not set("<>\"'\n\t").intersection(inside)
    assert unescape(said) == clean_text(text) == unescape(inside)
    unescape(text)


@entry("sentence of a receipt", LIMITS.tool_result_chars)
def read_recorded_sentence(text: str) -> None:
    for recorded in (
        text,
        f"{text[:9_000]} says the same already.",
        f"It needs {text[:9_000]} tokens and 4 were left.",
    ):
        found = parse_sentence(recorded)
        assert found is None or render_sentence(found, "en") == recorded
        translate(recorded, "zh")


@entry("text between boundaries", LIMITS.tool_result_chars)
def bound(text: str) -> None:
    shown = f"<result>{show_text(text, 'b7c1f2a09d33')}</result>"
    pieces = split_content(shown)
    assert "".join(piece.source for piece in pieces) == shown
    assert [piece.source for piece in pieces if piece.is_tag] == ["<result>", "</result>"]
    assert "".join(piece.source for piece in split_content(text)) == text
    split_content(f'<text boundary="x">\n{text}')


@entry("element", LIMITS.reply_chars, FilamentError)
def read_element(text: str) -> None:
    read = parse_element(f'<a b="{escape_attribute(text)}">{escape_text(text)}</a>')
    assert read.attributes == (("b", clean_text(text)),)
    parse_element(f"<a>{text}</a>")


@entry("YAML out", LIMITS.state_chars)
def write_yaml(text: str) -> None:
    value = {"a": text, "b": [text[:9], {text[:40]: 1}]}
    shown = dump_yaml(value)
    if "\ud83d" not in text and len(text) < 4_000:
        assert load_yaml(shown) == value
    scalar(text)


@entry("YAML in", MEASURED_CHARS, FilamentError)
def read_yaml(text: str) -> None:
    load_yaml_marked(text)


_TREE = with_anchors(
    {
        "hero": {"id": "hero", "name": "Kai", "gold": 3, "note": "", "$meta": {"extensible": True}},
        "bag": {"_anchor": "bag", "items": [{"id": "item_1", "name": "Sword", "count": 1}]},
        "quests": {"q1": {"id": "q1", "title": "The lamb", "status": "active"}},
    }
)


@entry("op value", LIMITS.state_chars)
def judge_value(text: str) -> None:
    done = judge_ops(
        _TREE, [["SET", "hero.note", text], ["PUSH", "bag", {"name": text}], ["SET", "quests.q1.status", text]]
    )
    assert done.tree["hero"]["gold"] == 3


@entry("op path", LIMITS.reply_chars)
def judge_path(text: str) -> None:
    judge_ops(
        _TREE,
        [["SET", text, 1], ["SET", f"hero.{text}", 1], {"op": "add", "path": f"/{text}", "value": 1}, [text, "a", 1]],
    )


@entry("ops of a reply", LIMITS.reply_chars)
def judge_reply(text: str) -> None:
    reply = parse_reply(f"<content>x</content><state_update>{text}</state_update>")
    judge_ops(_TREE, reply.ops)


# --- planning ---------------------------------------------------------------------------------------------------------

_HEAD = SessionHead(session_id="s", world_id="forest", branch_id="main", turn_id="t1", depth=1, lineage=(), version=1)
_PLANNER = RulePlanner()


@cache
def worlds() -> tuple[Any, ...]:
    return tuple(load_world(EXAMPLES / language) for language in ("en", "zh"))


def window_of(world: Any) -> SessionWindow:
    return SessionWindow(head=_HEAD, messages=(), state=world.state)


def plan_in(world: Any, text: str) -> None:
    made = _PLANNER.plan(text, window_of(world), world)
    assert 0.0 <= made.confidence <= 1.0
    assert len(made.search_intent.focus_keywords) <= 12
    assert all(0 < len(word) <= 200 for word in made.search_intent.focus_keywords)


@entry("planner", LIMITS.user_message_chars)
def plan(text: str) -> None:
    plan_in(worlds()[0], text)


@entry("planner in Chinese", LIMITS.user_message_chars)
def plan_in_chinese(text: str) -> None:
    plan_in(worlds()[1], text)


@entry("planner of a world without names", LIMITS.user_message_chars)
def plan_bare(text: str) -> None:
    plan_in(replace(worlds()[0], entities=(), actions=(), digest="bare"), text)


@entry("actions", MAX_INPUT_CHARS)
def read_action(text: str) -> None:
    world = worlds()[len(text) % 2]
    read = read_input(text, world)
    assert read.action is None or read.action in world.actions


@entry("number", LIMITS.user_message_chars)
def read_quantity(text: str) -> None:
    value = read_number(text)
    assert value is None or value >= 0


@entry("expression", LIMITS.user_message_chars, ValueError)
def read_expression(text: str) -> None:
    calculate("{" + text + "}", lambda name: len(name))


@entry("input words", LIMITS.user_message_chars)
def read_words(text: str) -> None:
    read_input_words(text, ("once upon",), ("soon",))


@entry("quiet input", LIMITS.user_message_chars)
def read_quiet(text: str) -> None:
    find_quiet(text)


@entry("guessed names", LIMITS.user_message_chars)
def guess(text: str) -> None:
    guess_names(text)


@entry("names", LIMITS.user_message_chars)
def find_in_dictionary(text: str) -> None:
    dictionary = NameDictionary(worlds()[0].entities)
    found = dictionary.find(text)
    assert all(each.phrase == normalise(each.phrase) for each in found)
    list(find_mentions(normalise(text), text[:60]))


@entry("mentions of an input", LIMITS.user_message_chars)
def find_itself(text: str) -> None:
    plain = normalise(text)
    list(find_mentions(plain, text[: len(text) // 2]))


@entry("searched text", LIMITS.user_message_chars)
def search_text(text: str) -> None:
    world = worlds()[0]
    assert len(find_searched_text(text, window_of(world), world)) <= len(text)


@entry("small model's plan", LIMITS.reply_chars, JacquardError)
def read_model_plan(text: str) -> None:
    request = _plan_request("Where?")
    read_plan(text, request, ["chat"])


@entry("small model's planning prompt", LIMITS.user_message_chars)
def write_plan_prompt(text: str) -> None:
    for _, said in plan_prompt(_plan_request(text)):
        assert "</current_input><" not in said


def _plan_request(text: str) -> PlanRequest:
    world = worlds()[0]
    return PlanRequest(
        user_message=text, recent=(text, "Wren: yes"), plan=plan_of(()), window=window_of(world), world=world
    )
