"""Cuts authored blocks that do not fit into a prompt, so that the beginning of each block is shown, up to the end of a
sentence.

The tags of a block are kept. If its text is a YAML mapping, such as a persona, each long value is cut and no field is
lost. A summary loses its beginning instead of its end, because its beginning is its oldest part. No model is called, so
equal blocks and limits give equal texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from filament import FilamentError, dump_yaml, load_yaml
from filament.boundaries import ContentPiece, split_content
from jacquard.core.block_kinds import AUTHORED, SUMMARY_SLOT, remedy_of
from jacquard.core.blocks import Block, PlacedBlock, shorten_block
from jacquard.core.degradations import Degradation, DegradationCode
from jacquard.core.errors import SummarizerError
from jacquard.core.receipt import Action, BlockDecision
from jacquard.pipeline.skeleton.state_cut import divide_chars
from jacquard.pipeline.truncation import keep_last_sentences, truncate_with_size
from jacquard.pipeline.weaving.packing import CUT
from mnemosyne.schema.evidence import Priority

CONTENTS_KEPT = 64
_LONG_CHARS = 80
"""Minimum length of a value in a mapping; shorter values are not cut."""

_TRIES = 6
_FIRST_TAG = re.compile(r"\A\s*<[A-Za-z_][\w.-]*")
_NO_ROOM = frozenset({"over_budget", "over_quota", "after_cut", f"not_{CUT}"})

Count = Callable[[str], int]
Path = tuple[str | int, ...]


def cut_block(placed: PlacedBlock, limit_tokens: int, count: Count) -> Block | None:
    """Return the block of `placed`, cut to at most `limit_tokens`. Return None if none of its text fits. `count`
    returns the tokens of a text.
    """
    block = placed.block
    around = placed.tokens - count(block.content)
    content = _cut_content(block.content, limit_tokens - around, count, block.place.slot == SUMMARY_SLOT)
    return shorten_block(block, content, count(content) + around) if content else None


def describe_cuts(decisions: Sequence[BlockDecision], blocks: Iterable[PlacedBlock]) -> tuple[Degradation, ...]:
    """Return a degradation for each authored block that was cut, and for each authored block of priority HIGH that was left
    out because it did not fit.

    `decisions` are the decisions of the pruner, which fits the blocks into the prompt. `blocks` are all blocks before
    the pruner decided.
    """
    whole = {each.block.block_id: each for each in blocks if each.block.kind in AUTHORED}
    return tuple(
        _describe_cut(whole[each.block_id], each)
        for each in decisions
        if each.block_id in whole and _is_missed(whole[each.block_id], each)
    )


def mark_shortened(content: str) -> str:
    """Return `content` with the attribute `shortened` in its first tag; a content without tags is unchanged."""
    found = _FIRST_TAG.match(content)
    return content if found is None else f'{content[: found.end()]} shortened="true"{content[found.end() :]}'


def _is_missed(placed: PlacedBlock, decision: BlockDecision) -> bool:
    if decision.action is Action.DEGRADED:
        return decision.code == CUT
    return decision.action is Action.DROPPED and decision.code in _NO_ROOM and placed.block.priority is Priority.HIGH


def _describe_cut(placed: PlacedBlock, decision: BlockDecision) -> Degradation:
    block_id, title = placed.block.block_id, placed.block.origin.title
    name = block_id if title in ("", block_id) else f"{title} ({block_id})"
    shown = "there is no room for it" if decision.action is Action.DROPPED else f"it is shown with {decision.tokens:,}"
    remedy = remedy_of(block_id) or "shorten it"
    detail = (
        f"{name} takes {placed.tokens:,} tokens; {shown}. To show it whole: {remedy}, or raise budget.max_input_tokens."
    )
    return Degradation(code=DegradationCode.BLOCK_CUT.value, detail=detail)


@lru_cache(maxsize=CONTENTS_KEPT)
def _cut_content(content: str, limit_tokens: int, count: Count, from_start: bool) -> str:
    """Return a content whose texts are cut to fit; '' if they cannot be. `from_start`: cut the start, which is the oldest part.

    Cached, because a block that is too large is cut in each turn, mostly to the same length.
    """
    pieces = split_content(mark_shortened(content))
    texts = [place for place, piece in enumerate(pieces) if not piece.is_tag and piece.text.strip()]
    sizes = [count(pieces[place].source) for place in texts]
    room = limit_tokens - count("".join(piece.source for place, piece in enumerate(pieces) if place not in texts))
    for _ in range(_TRIES):
        made = list(pieces)
        try:
            for place, size, given in zip(texts, sizes, divide_chars(sizes, room), strict=True):
                if given < size:
                    made[place] = _cut_piece(pieces[place], given, count, from_start)
        except SummarizerError:
            return ""
        shown = "".join(piece.source for piece in made)
        if (over := count(shown) - limit_tokens) <= 0:
            return shown
        room -= over
    return ""


def _cut_piece(piece: ContentPiece, limit_tokens: int, count: Count, from_start: bool) -> ContentPiece:
    def count_shown(text: str) -> int:
        return count(piece.with_text(text).source)

    text = piece.text.strip()
    start = piece.text.index(text)
    if from_start:
        short, _ = keep_last_sentences(text, limit_tokens, count_shown)
    else:
        short = _cut_values(text, limit_tokens, count_shown) or _cut_value(text, limit_tokens, count_shown)
    return piece.with_text(f"{piece.text[:start]}{short}{piece.text[start + len(text) :]}")


def _cut_values(text: str, limit_tokens: int, count: Count) -> str:
    """Return a YAML mapping whose long values are cut to fit; '' for another text, or if its short values take too much."""
    try:
        tree = load_yaml(text)
    except FilamentError:
        return ""
    if not isinstance(tree, dict):
        return ""
    values = dict(_walk_long_values(tree, ()))
    sizes = [count(value) for value in values.values()]
    room = limit_tokens - count(text) + sum(sizes)
    for _ in range(_TRIES):
        if not values or room < len(values):
            return ""
        given = dict(zip(values, divide_chars(sizes, room), strict=True))
        try:
            made = dump_yaml(
                _replace_values(tree, (), {path: _cut_value(values[path], given[path], count) for path in values})
            )
        except SummarizerError:
            return ""
        if (over := count(made) - limit_tokens) <= 0:
            return made
        room -= over
    return ""


def _cut_value(value: str, limit_tokens: int, count: Count) -> str:
    short, shown_chars = truncate_with_size(value, limit_tokens, count)
    if not shown_chars:
        raise SummarizerError(f"Not even the first character of the text fits into {limit_tokens} tokens.")
    return short


def _walk_long_values(node: Any, at: Path) -> Iterator[tuple[Path, str]]:
    """Yield the long texts of a tree with their places, in reading order."""
    if isinstance(node, str):
        if len(node) > _LONG_CHARS:
            yield at, node
    elif isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _walk_long_values(value, (*at, key))


def _replace_values(node: Any, at: Path, values: dict[Path, str]) -> Any:
    if isinstance(node, dict):
        return {key: _replace_values(value, (*at, key), values) for key, value in node.items()}
    if isinstance(node, list):
        return [_replace_values(value, (*at, place), values) for place, value in enumerate(node)]
    return values.get(at, node)
