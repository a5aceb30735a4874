"""Recognises and applies numerical actions: inputs that change numbers of the state and are answered without a model.

An author declares an action in the world pack with patterns, guards (conditions), ops (changes of the state) and a reply.
Example: "buy 3 torches" lowers the gold by 15 and gets the reply of the action. An action must match the whole input, so that
narration is never mistaken for an action.

Pure, except that patterns run under time limits. This module must not import a store, a stream or a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import cache, lru_cache
from time import thread_time
from typing import Any

from jacquard.core.errors import TemplateError
from jacquard.core.names import normalise
from jacquard.pipeline.turn import ActionOutcome
from jacquard.templating import check_reply, render_reply
from mnemosyne.chains.quantities import calculate, is_expression, read_number
from mnemosyne.chains.state import apply_action_ops, condition_holds, find_anchor, view_state
from mnemosyne.core.errors import PatternError, StateOpError
from mnemosyne.core.normal_forms import normal_form
from mnemosyne.core.regexes import SECONDS, compile_re, group_names, match_whole
from mnemosyne.schema.world import ActionNumber, Entity, NumericalAction, WorldPack
from mnemosyne.values import dataclass

MAX_INPUT_CHARS = 200
INPUT_SECONDS = 0.5
_END = " 。．.!！?？~～…、,，;；"
_POLITE_END = re.compile(
    r"(?:[吧啊呀啦哦喔噢嘛哈哟]|谢谢(?:你|您)?|多谢|(?<!\w)(?:please|thanks|thank you))$", re.IGNORECASE
)
_BEGINNINGS = frozenset(
    ("好", "好的", "好吧", "行", "嗯", "那", "那么", "ok", "okay", "well", "then", "alright", "all right", "so", "yes")
)
_POLITE_START = re.compile(r"^(?:请(?:你|您)?|麻烦(?:你|您)?|please(?!\w)[\s,]*)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionMatch:
    """Action that an input means, with the texts of the named groups of its pattern."""

    action: NumericalAction | None = None
    """The action (None: no action matches)."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """Name of a group in the pattern -> text that this group matched."""
    faults: tuple[str, ...] = ()
    """One sentence for each pattern that failed or exceeded its time limit. Such a pattern counts as not matching."""


def match_action(user_message: str, world: WorldPack) -> tuple[NumericalAction, Mapping[str, str]] | None:
    """Return (action, groups): the first action that matches the whole input, and the texts of its groups
    (`read_input`). Return None if no action matches.
    """
    found = read_input(user_message, world)
    return None if found.action is None else (found.action, found.groups)


def read_input(user_message: str, world: WorldPack, action_id: str | None = None) -> ActionMatch:
    """Return the first action of `world` with a pattern that matches the whole input. If `action_id` is given, only
    this action is tried.

    Case and punctuation at the end are ignored. The input is tried as it was written (after NFKC), and without polite words (吧,
    请, please …) and the name of the person addressed (掌柜的，…). An input of more than MAX_INPUT_CHARS characters is never an
    action. All patterns together take at most about INPUT_SECONDS of processor time; call this function off the event loop.
    """
    if len(user_message) > MAX_INPUT_CHARS or not world.actions:
        return ActionMatch()
    forms = tuple(dict.fromkeys(_forms(user_message, world.entities)))
    tried = [(a, pattern) for a in world.actions if action_id in (None, a.action_id) for pattern in a.patterns]
    faults: list[str] = []
    spent = 0.0
    for action, pattern in tried:
        if spent >= INPUT_SECONDS:
            faults.append(f"action {action.action_id} and those behind it were not tried: the time was used up")
            break
        groups = None
        started = thread_time()
        try:
            compile_re(pattern)
            # Compiling happens once, so its time is not charged to this input.
            started = thread_time()
            found = (match_whole(pattern, form, seconds=min(SECONDS, INPUT_SECONDS - spent)) for form in forms)
            groups = next((each for each in found if each is not None), None)
        except PatternError as error:
            faults.append(f"action {action.action_id}: {error}")
        spent += thread_time() - started
        if groups is not None and all(is_number_group(groups, number.name) for number in action.numbers):
            return ActionMatch(action=action, groups=groups, faults=tuple(faults))
    return ActionMatch(faults=tuple(faults))


def apply_action(
    action: NumericalAction,
    groups: Mapping[str, str],
    state: Mapping[str, Any],
    *,
    state_chars: int | None = None,
    locale: str = "",
) -> ActionOutcome:
    """Return the reply of `action` and the state after the action. The mapping `state` is not changed.

    `groups` are the texts of the pattern's groups. `state_chars` is the maximum size of the state (None: no maximum).
    `locale` is the language of our own messages. If a number in `groups` is out of bounds, the reply is the message for
    this number and the state stays the same. If a guard (condition) is not true, the reply is the message of the guard
    and the state stays the same.

    Raises StateOpError if an op is refused (for example because the state would exceed `state_chars`) or a value cannot be
    calculated. Raises TemplateError if the template of the reply is not valid.
    """
    numbers = read_action_numbers(action, groups)
    for number in action.numbers:
        if not number.least <= numbers[number.name] <= number.most:
            return ActionOutcome(reply=number.message or _bounds_text(number, locale), state=state)
    guards, ops = calculate_values(action, numbers, state)
    for guard, wanted in zip(action.guards, guards, strict=True):
        if not condition_holds(replace(guard, value=wanted), state):
            return ActionOutcome(reply=guard.message, state=state, refused=guard)
    applied = apply_action_ops(state, ops, state_chars=state_chars)
    reply = reply_of(action, groups, applied.tree)
    return ActionOutcome(reply=reply, state=applied.tree, patch=tuple(applied.patch))


def reply_of(action: NumericalAction, groups: Mapping[str, str], state: Mapping[str, Any]) -> str:
    """Return the reply of `action` as plain text for the player. The text is not escaped for a prompt.

    The template of the reply can use these names:

    - `state`: the state of the session.
    - `groups`: the texts that the groups of the pattern matched ('' for a group without a match).
    - `numbers`: the numbers that `action` declares, read from these texts.
    - `item(anchor)`: returns the mapping of the state whose `id` or `_anchor` is `anchor`.

    Raises TemplateError if the template of the reply is not valid.
    """
    names = dict.fromkeys((name for pattern in action.patterns for name in group_names(pattern)), "")
    view = cache(lambda: view_state(state))

    def item(anchor: str) -> Any:
        return find_anchor(view(), str(anchor))

    numbers = read_action_numbers(action, groups)
    variables = {"state": state, "groups": {**names, **groups}, "item": item, "numbers": numbers}
    return render_reply(action.reply, variables, name=_reply_name(action)).strip()


def is_number_group(groups: Mapping[str, str], name: str) -> bool:
    """Return whether the text of the group `name` is missing, empty, or a number. A vague number such as 两三 (two or
    three) is not a number.
    """
    return not groups.get(name) or read_number(groups[name]) is not None


def read_action_numbers(action: NumericalAction, groups: Mapping[str, str]) -> dict[str, int]:
    """Return name -> number for each number that `action` declares. A number missing in `groups` gets its default."""
    found: dict[str, int] = {}
    for number in action.numbers:
        given = read_number(groups.get(number.name) or "")
        default = number.least if number.default is None else number.default
        found[number.name] = default if given is None else given
    return found


def calculate_values(
    action: NumericalAction, numbers: Mapping[str, int], state: Mapping[str, Any]
) -> tuple[list[Any], list[tuple[Any, ...]]]:
    """Return (guards, ops): the value with which each guard of `action` compares, and the ops of `action`. All
    expressions in them are calculated with `numbers` and `state`.

    Raises StateOpError if an expression cannot be calculated.
    """
    view = cache(lambda: view_state(state))

    def read_name(name: str) -> int:
        if name in numbers:
            return numbers[name]
        _, value = view().read(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise ValueError(f"{name!r} is not a whole number of the present state")

    def value_of(place: int, value: Any) -> Any:
        if not action.numbers or not is_expression(value):
            return value
        try:
            return calculate(value, read_name)
        except ValueError as error:
            raise StateOpError(place, value, str(error)) from error

    ops = [(*op[:2], value_of(place, op[2])) if len(op) == 3 else tuple(op) for place, op in enumerate(action.ops)]
    return [value_of(0, guard.value) for guard in action.guards], ops


def _bounds_text(number: ActionNumber, locale: str) -> str:
    if locale.lower().startswith("zh"):
        return f"数量要在 {number.least} 到 {number.most} 之间。"
    return f"The number must be from {number.least} to {number.most}."


def find_action_faults(world: WorldPack) -> tuple[str, ...]:
    """Return the faults of a world's actions, one sentence each, for `jacquard author validate`.

    The reply template of every action is compiled. If the guards of an action are true in the initial state of the world, the
    action is also applied to this state.
    """
    faults = []
    for action in world.actions:
        try:
            check_reply(action.reply, name=_reply_name(action))
            if all(condition_holds(guard, world.state) for guard in action.guards):
                apply_action(action, {}, world.state)
        except (TemplateError, StateOpError) as error:
            faults.append(str(error) if isinstance(error, TemplateError) else f"action {action.action_id}: {error}")
    return tuple(faults)


def _reply_name(action: NumericalAction) -> str:
    return f"action {action.action_id}: reply"


def _forms(user_message: str, entities: tuple[Entity, ...]) -> Iterator[str]:
    text = " ".join(normal_form("NFKC", user_message).split()).rstrip(_END)
    yield text
    head, comma, rest = text.partition(",")
    if comma and rest and (head.casefold() in _BEGINNINGS or normalise(head) in _names_of(entities)):
        text = rest.strip()
    bare, before = text, None
    while bare != before:
        before = bare
        bare = _POLITE_END.sub("", _POLITE_START.sub("", bare).strip()).rstrip(_END)
    yield bare


@lru_cache(maxsize=8)
def _names_of(entities: tuple[Entity, ...]) -> frozenset[str]:
    return frozenset(normalise(name) for entity in entities for name in (entity.name, *entity.aliases))
