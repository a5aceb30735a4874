"""Differences of two prompts: blocks that came, went, moved or changed, and the byte at which a cache breaks."""

from __future__ import annotations

import pytest

from jacquard.authoring.replay.turn_diff import BlockChange, compare_turns
from jacquard.authoring.replay.turn_view import ShownBlock, ShownMessage, TurnView
from jacquard.core.blocks import BlockKind


def view(*messages):
    """Make a view of messages, each a list of (block id, text)."""
    shown = []
    for number, pieces in enumerate(messages):
        blocks, at = [], 0
        for name, text in pieces:
            blocks.append(
                ShownBlock(
                    block_id=name,
                    kind=BlockKind.TEMPLATE,
                    group="world",
                    text=text,
                    tokens=len(text),
                    message=number,
                    start=at,
                    end=at + len(text),
                )
            )
            at += len(text)
        shown.append(ShownMessage(role="system", blocks=tuple(blocks)))
    return TurnView(turn_id="t", session_id="s", messages=tuple(shown), left_out=(), tokens={}, report=None)


def changes(before, after):
    return {each.shown.block_id: (each.change, each.tokens) for each in compare_turns(before, after).blocks}


def test_blocks_that_came_went_moved_and_changed_are_named_with_their_tokens():
    before = view([("a", "aaa"), ("b", "bb"), ("c", "c"), ("d", "dddd")])
    after = view([("a", "aaa"), ("c", "c"), ("b", "bb"), ("d", "dd"), ("e", "eeeee")])
    found = changes(before, after)
    assert found.pop("d") == (BlockChange.CHANGED, -2)
    assert found.pop("e") == (BlockChange.ADDED, 5)
    assert list(found.values()) == [(BlockChange.MOVED, 0)]
    assert changes(after, before)["e"] == (BlockChange.DROPPED, -5)
    assert changes(before, before) == {}


def test_the_cache_breaks_at_the_first_byte_that_differs():
    before, after = (view([("a", "猫猫"), ("b", text)], [("c", "rest")]) for text in ("xyz", "xaz"))
    cache = compare_turns(before, after).cache
    assert (cache.byte, cache.message, cache.block.block_id) == (7, 0, "b")
    assert (cache.same[-1], cache.before, cache.after) == ("x", "yz", "az")
    assert cache.lost_tokens == 2 + 4


@pytest.mark.parametrize("more", [[], [[("b", "new")]]])
def test_a_prompt_that_only_grows_breaks_no_cache(more):
    before = view([("a", "first")])
    assert compare_turns(before, view([("a", "first")], *more)).cache is None


def test_a_message_that_grows_breaks_where_the_new_text_begins():
    cache = compare_turns(view([("a", "one")]), view([("a", "one"), ("b", "two")])).cache
    assert (cache.byte, cache.block.block_id, cache.lost_tokens) == (3, "b", 3)
