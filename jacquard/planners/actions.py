"""Numerical actions (spec 2.1, T1): a declared input changes numbers and is answered without any model.

Pure. An action matches the whole input or not at all, so that nothing that tells a story is ever taken for a button press.
It must not import a store, a stream or a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jacquard.errors import TemplateError
from jacquard.templating import check_reply, render_reply
from mnemosyne.chains.state import apply_action_ops, condition_holds, find_anchor
from mnemosyne.errors import StateOpError
from mnemosyne.normal_forms import normal_form
from mnemosyne.schema.memory import Condition
from mnemosyne.schema.world import NumericalAction, WorldPack

MAX_INPUT_CHARS = 200
_END = re.compile(r"[\s。．.!！?？~～…、,，;；]+$")
_POLITE_END = re.compile(
    r"(?:[吧啊呀啦哦喔噢嘛哈哟]|谢谢(?:你|您)?|多谢|(?<!\w)(?:please|thanks|thank you))$", re.IGNORECASE
)
_POLITE_START = re.compile(r"^(?:请(?:你|您)?|麻烦(?:你|您)?|please(?!\w)[\s,]*)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionOutcome:
    """What an action did: the reply for the player, the state after it, and its ops as JSON Patch.

    `refused` is the guard that did not hold: then the state is the one before and `patch` is empty.
    """

    reply: str
    state: Mapping[str, Any]
    patch: tuple[Mapping[str, Any], ...] = ()
    refused: Condition | None = None


def match_action(user_text: str, world: WorldPack) -> tuple[NumericalAction, Mapping[str, str]] | None:
    """Return the first action one of whose patterns is the whole input, with its named groups, or None.

    Compared without regard to case, after NFKC and trimming, without end punctuation; tried as it then stands, and without
    polite particles (吧, 请, please …). An input of more than MAX_INPUT_CHARS characters is never an action.
    """
    if len(user_text) > MAX_INPUT_CHARS:
        return None
    forms = tuple(dict.fromkeys(_forms(user_text)))
    for action in world.actions:
        for pattern in action.patterns:
            for form in forms:
                if (match := _compiled(pattern).fullmatch(form)) is not None:
                    return action, {name: text or "" for name, text in match.groupdict().items()}
    return None


def apply_action(action: NumericalAction, groups: Mapping[str, str], state: Mapping[str, Any]) -> ActionOutcome:
    """Return what the action does to the state; `state` itself stays as it is.

    The first guard that does not hold answers with its message and changes nothing. Raises StateOpError when an op is
    refused (then nothing is changed either) and TemplateError when the reply's template has a fault.
    """
    for guard in action.guards:
        if not condition_holds(guard, state):
            return ActionOutcome(reply=guard.message, state=state, refused=guard)
    applied = apply_action_ops(state, action.ops)
    reply = reply_of(action, groups, applied.tree)
    return ActionOutcome(reply=reply, state=applied.tree, patch=tuple(applied.patch))


def reply_of(action: NumericalAction, groups: Mapping[str, str], state: Mapping[str, Any]) -> str:
    """Return the action's reply over a state: plain text for the player, not escaped for a prompt.

    The template sees `state`, `groups` (a group of a pattern that did not match is empty) and `item(anchor)`, the mapping
    that carries this `id` or `_anchor`.
    """
    names = dict.fromkeys((name for pattern in action.patterns for name in _compiled(pattern).groupindex), "")

    def item(anchor: str) -> Any:
        return find_anchor(state, str(anchor))

    variables = {"state": state, "groups": {**names, **groups}, "item": item}
    return render_reply(action.reply, variables, name=_reply_name(action)).strip()


def action_faults(world: WorldPack) -> tuple[str, ...]:
    """Return what is wrong with the reply templates of a world's actions, one sentence a fault, for `jacquard validate`.

    Every template is compiled; where the guards hold on the world's first state, the action is also tried out on it.
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


def _forms(user_text: str) -> Iterator[str]:
    text = _END.sub("", " ".join(normal_form("NFKC", user_text).split()))
    yield text
    bare, before = text, None
    while bare != before:
        before = bare
        bare = _END.sub("", _POLITE_END.sub("", _POLITE_START.sub("", bare).strip()))
    yield bare


@lru_cache(maxsize=2048)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)
