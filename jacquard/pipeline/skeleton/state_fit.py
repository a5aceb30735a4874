"""Shortens the state (a tree of values) until the prompt blocks that show the state fit into a token limit.

The templates read the state from their variables: the status (the state without quests), the active quests and the goal. These
variables are shortened. The caller passes a function that counts the tokens of the blocks, so this module must not import a
template, a store or a model. Equal variables and limits give equal results.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jacquard.core.errors import BudgetExceededError
from jacquard.core.quests import QUESTS_KEY, Quest, drop_quests
from jacquard.core.receipt import CutPart, StateCut
from jacquard.pipeline.skeleton.state_cut import (
    CutWords,
    StateCutter,
    count_shown_chars,
    divide_chars,
    find_cut_words,
    format_pointer,
    reduce_rules,
    restore_paths,
)
from mnemosyne.schema.memory import MemoryEntry
from mnemosyne.values import dataclass

MOST_CHARS = 150_000
"""Maximum characters of the state in the variables of templates. With them no shipped template exceeds
`jacquard.templating.limits`.
"""
MOST_TOKENS = 4 * MOST_CHARS
"""Token limit that has no effect, because MOST_CHARS characters never take so many tokens."""
GOAL_CHARS = 400
"""Number of characters above which a goal counts as a part of the state and is shortened together with it. A goal comes
from a quest.
"""
_SMALL_CHARS = MOST_CHARS // 5
"""A text of at most this many characters is never too large, however it is escaped."""
_ROUNDS = 8
_ENOUGH = 0.9
_TRIES = 4

Variables = Mapping[str, Any]
TokensOf = Callable[[Variables], int]


def is_too_large(variables: Variables) -> bool:
    """Return whether status, quests and goal in `variables` exceed MOST_CHARS characters together."""
    parts = [variables["status"], variables["quests"], variables["goal"]]
    return count_shown_chars(parts, MOST_CHARS, with_rules=True) > MOST_CHARS


def fit_texts(
    variables: Variables, authored: Sequence[str], directives: Sequence[MemoryEntry]
) -> tuple[dict[str, Any], tuple[MemoryEntry, ...], tuple[CutPart, ...]]:
    """Return (variables, directives, cuts): the template variables and the directives, with texts of the author
    shortened if they are too long, and the list of the shortened texts.

    `authored` contains the names of the variables that are texts or trees of an author. Each of these variables, each axiom and
    each directive may have MOST_CHARS characters.
    """
    cutter = StateCutter(find_cut_words(str(variables["locale"])))

    def fit(value: Any, *path: str) -> Any:
        is_small = isinstance(value, str) and len(value) <= _SMALL_CHARS
        return value if is_small else cutter.cut(value, MOST_CHARS, path)

    fitted = {name: fit(variables[name], name) for name in authored}
    fitted["axioms"] = [{**each, "text": fit(each["text"], "axioms", each["id"])} for each in variables["axioms"]]
    shown = tuple(
        each if (text := fit(each.text, each.entry_id)) is each.text else replace(each, text=text)
        for each in directives
    )
    return {**variables, **fitted}, shown, tuple(cutter.cuts)


def count_goal_tokens(goal: str, count: Callable[[str], int]) -> int:
    """Return the tokens of `goal` that count as tokens of the state. Return 0 if the goal is at most GOAL_CHARS long.
    `count` returns the tokens of a text.
    """
    return count(goal) if len(goal) > GOAL_CHARS else 0


def fit_state(
    variables: Variables, quests: Sequence[Quest], limit_tokens: int, tokens_of: TokensOf, whole_tokens: int | None
) -> tuple[dict[str, Any], StateCut | None, dict[str, Any]]:
    """Return (variables, cut, rows): the template variables with a state that takes at most `limit_tokens`, the list of
    what was cut, and the quests.

    `cut` lists the parts that are not shown completely (None: all are). `rows` maps the key of each shown quest to the
    quest. If `limit_tokens` is 0, nothing of the state is shown.

    Args:
        variables: template variables with the complete state.
        quests: active quests, in the order of `variables["quests"]`.
        limit_tokens: maximum tokens of the state.
        tokens_of: renders the templates with the given variables, and returns the tokens of the blocks that show the
            state.
        whole_tokens: result of `tokens_of` for the complete state (None: the state is too large to be rendered).
    """
    parts = _Parts.of(variables, quests)
    made, tokens = _fit_variables(parts, limit_tokens, tokens_of)
    cut = None
    if made.cuts:
        cut = StateCut(
            limit_tokens=max(0, limit_tokens),
            before_tokens=_estimate_whole_state(parts, made, tokens) if whole_tokens is None else whole_tokens,
            after_tokens=tokens,
            parts=made.cuts,
            is_estimated=whole_tokens is None,
        )
    return made.variables, cut, made.rows


class StateLimit:
    """Token limit of the state in one prompt. The limit is lowered after each attempt in which the blocks that must be
    kept did not fit.
    """

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self._attempts = 0
        self._first: BudgetExceededError | None = None

    def reduce(self, used_tokens: int, error: BudgetExceededError) -> None:
        """Lower the limit after an attempt that failed with `error`. In this attempt the state took `used_tokens`.

        Raises BudgetExceededError if nothing of the state is left to shorten, or after too many attempts. The raised
        error describes the first attempt, and its `without_state` is the error of the last attempt.
        """
        self._first = self._first or error
        if used_tokens <= 0 or self._attempts > _TRIES:
            raise _build_state_budget_error(self._first, error) from error
        left = used_tokens - max(1, error.needed_tokens - error.limit_tokens)
        self.tokens = max(0, left - left // 20) if self._attempts < _TRIES else 0
        self._attempts += 1


def _build_state_budget_error(first: BudgetExceededError, last: BudgetExceededError) -> BudgetExceededError:
    """Return the error of a prompt that does not fit: `first` with the complete state, `last` with the least of it."""
    if first is last:
        return first
    return BudgetExceededError(first.limit_tokens, first.needed_tokens, first.blocks, last)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Variables:
    """Shortened variables; `rows` are the shown quests by key."""

    variables: dict[str, Any]
    rows: dict[str, Any]
    cuts: tuple[CutPart, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Parts:
    """Parts of a state that templates read; `rows` are the active quests by key, `all_quests` all of them or None."""

    variables: Variables
    status: Mapping[str, Any]
    all_quests: Any
    rows: Mapping[str, Any]
    goal: str
    words: CutWords
    quests: tuple[Quest, ...]

    @classmethod
    def of(cls, variables: Variables, quests: Sequence[Quest]) -> _Parts:
        return cls(
            variables=variables,
            status=variables["status"],
            all_quests=variables["state"].get(QUESTS_KEY),
            rows={quest.key: row for quest, row in zip(quests, variables["quests"], strict=True)},
            goal=str(variables["goal"]),
            words=find_cut_words(str(variables["locale"])),
            quests=tuple(quests),
        )


def _fit_variables(parts: _Parts, limit_tokens: int, tokens_of: TokensOf) -> tuple[_Variables, int]:
    """Return the variables with as much of the state as fits, and its tokens."""
    best: tuple[_Variables, int] | None = None
    low, high = 0, MOST_CHARS + 1
    chars = min(MOST_CHARS, 4 * limit_tokens)
    for _ in range(_ROUNDS if limit_tokens > 0 else 0):
        made = _build_variables(parts, chars)
        tokens = tokens_of(made.variables)
        if tokens > limit_tokens:
            high = chars
        else:
            best, low = (made, tokens), chars
            if not made.cuts or tokens >= _ENOUGH * limit_tokens:
                break
        # Tokens are nearly proportional to characters; if that estimate leaves the known bounds, their middle is taken.
        chars = int(chars * 0.97 * limit_tokens / max(1, tokens))
        if not low < chars < high:
            chars = (low + high) // 2
        if chars - low < max(8, low // 50):
            break
    if best is None:
        nothing = _build_variables(parts, 0)
        best = nothing, tokens_of(nothing.variables)
    return best


def _build_variables(parts: _Parts, chars: int) -> _Variables:
    """Return the variables with a state of about `chars` characters, divided so that small parts stay complete.

    Rules only keep which fields are lists.
    """
    goal_wants = count_shown_chars(parts.goal, chars) if len(parts.goal) > GOAL_CHARS else 0
    wanted = [count_shown_chars(parts.status, chars), count_shown_chars(parts.rows, chars), goal_wants]
    for_status, for_rows, for_goal = divide_chars(wanted, chars)
    status, cuts = _status(parts, for_status)
    rows, more, quest_cuts = _rows(parts, for_rows)
    goal, goal_cuts = _goal(parts, for_goal if goal_wants else None)
    state = dict(status)
    if parts.all_quests is not None:
        cutter = StateCutter(parts.words)
        state[QUESTS_KEY] = cutter.cut(parts.all_quests, MOST_CHARS, (QUESTS_KEY,), 1)
        known = {cut.path for cut in quest_cuts}
        quest_cuts = (*quest_cuts, *(cut for cut in cutter.cuts if cut.path not in known))
    state = reduce_rules(state)
    rows = {key: reduce_rules(row) for key, row in rows.items()}
    variables = {
        **parts.variables,
        "state": state,
        "status": drop_quests(state),
        "quests": [*rows.values(), *more],
        "goal": goal,
    }
    return _Variables(variables=variables, rows=rows, cuts=(*cuts, *quest_cuts, *goal_cuts))


def _status(parts: _Parts, chars: int) -> tuple[Mapping[str, Any], tuple[CutPart, ...]]:
    if not parts.status:
        return {}, ()
    if chars <= 0:
        return {}, (_cut_whole_part(parts.status, ""),)
    cutter = StateCutter(parts.words)
    return cutter.cut(parts.status, chars, ()), tuple(cutter.cuts)


def _rows(parts: _Parts, chars: int) -> tuple[dict[str, Any], list[dict[str, Any]], tuple[CutPart, ...]]:
    """Return the shown quests by key, the row that represents the others, and the cuts."""
    if not parts.rows:
        return {}, [], ()
    if chars <= 0:
        return {}, [], (_cut_whole_part(parts.rows, f"/{QUESTS_KEY}"),)
    if count_shown_chars(parts.rows, chars) <= chars:
        return dict(parts.rows), [], ()
    cutter = StateCutter(parts.words)
    quests = sorted(parts.quests, key=lambda quest: parts.rows[quest.key].get("focus") is not True)
    kept, _ = cutter.cut_with_note([parts.rows[quest.key] for quest in quests], chars, (QUESTS_KEY,))
    missing = len(quests) - len(kept)
    title = parts.words.quests.format(missing=f"{missing:,}")
    more = [{"id": "…", "status": "…", "title": title}] if missing else []
    rows = {quest.key: row for quest, row in zip(quests, kept, strict=False)}
    return rows, more, tuple(restore_paths(cutter.cuts, dict(_places(quests[: len(kept)]))))


def _places(quests: Sequence[Quest]) -> Iterator[tuple[str, str]]:
    """Yield, for quests and their open steps, the place among those shown and the place in the state."""
    for place, quest in enumerate(quests):
        row, home = (QUESTS_KEY, str(place)), (QUESTS_KEY, quest.key)
        yield format_pointer(row), format_pointer(home)
        for at, step in enumerate(quest.open_objectives):
            yield format_pointer((*row, "objectives", str(at))), format_pointer((*home, "objectives", str(step.index)))


def _goal(parts: _Parts, chars: int | None) -> tuple[str, tuple[CutPart, ...]]:
    if chars is None:
        return parts.goal, ()
    if chars <= 0:
        size = len(parts.goal)
        return "", (CutPart(path="goal", unit="characters", shown=0, total=size, chars=size),)
    cutter = StateCutter(parts.words)
    goal = cutter.cut(parts.goal, chars, ("goal",))
    return goal, tuple(
        CutPart(path="goal", unit=c.unit, shown=c.shown, total=c.total, chars=c.chars) for c in cutter.cuts
    )


def _cut_whole_part(node: Mapping[str, Any], path: str) -> CutPart:
    return CutPart(path=path, unit="fields", shown=0, total=len(node), chars=_chars(node))


def _estimate_whole_state(parts: _Parts, made: _Variables, after: int) -> int:
    """Return the tokens of the complete state, estimated from the tokens per character of the shown part."""
    whole = _chars([parts.status, parts.rows, parts.goal])
    shown = _chars([made.variables["status"], made.variables["quests"], made.variables["goal"]])
    return whole * after // shown if after else whole // 4


def _chars(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, default=str))
