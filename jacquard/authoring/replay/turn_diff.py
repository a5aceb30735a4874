"""Compares the prompts of two turns block by block, and finds the place up to which a provider can use its cache of the
earlier prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher
from enum import StrEnum

from jacquard.authoring.replay.turn_view import FRAME_GROUP, ShownBlock, TurnView
from mnemosyne.values import dataclass


class BlockChange(StrEnum):
    """Difference of a block between two prompts."""

    ADDED = "added"
    DROPPED = "dropped"
    CHANGED = "changed"
    MOVED = "moved"


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedBlock:
    """Block that is not the same in both prompts. `before` and `after` are the block with its pieces joined (None: this
    prompt does not contain the block).
    """

    change: BlockChange
    before: ShownBlock | None
    after: ShownBlock | None

    @property
    def shown(self) -> ShownBlock:
        """The block in the later prompt. If the later prompt does not contain it, the block in the earlier prompt."""
        found = self.after or self.before
        assert found is not None
        return found

    @property
    def tokens(self) -> int:
        """Tokens of the later prompt minus tokens of the earlier prompt."""
        return (self.after.tokens if self.after else 0) - (self.before.tokens if self.before else 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheBreak:
    """First difference of two prompts."""

    byte: int
    """Number of equal bytes (UTF-8) at the beginning; roles and separators of messages are not counted."""
    message: int
    """Index of the message with the first difference, counted from 0."""
    block: ShownBlock | None
    """Block with the first difference (None: the later prompt ends there)."""
    same: str
    """Last equal characters before the difference."""
    before: str
    """First characters of the earlier prompt that differ."""
    after: str
    """First characters of the later prompt that differ."""
    lost_tokens: int
    """Approximate tokens of the later prompt from the difference to the end. A provider cannot take them from its
    cache.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnDiff:
    """Differences between the prompts of two turns."""

    blocks: tuple[ChangedBlock, ...]
    """Changed blocks. Blocks of the later prompt come first, in reading order; then come blocks that only the earlier
    prompt contains.
    """
    cache: CacheBreak | None
    """First difference (None: the later prompt begins with the whole earlier prompt, or both are equal)."""


_SHOWN = 80


def compare_turns(before: TurnView, after: TurnView) -> TurnDiff:
    """Return the differences from the prompt `before` to the prompt `after`."""
    old, new = _join_pieces(before), _join_pieces(after)
    common_old, common_new = [each for each in old if each in new], [each for each in new if each in old]
    matches = SequenceMatcher(None, common_old, common_new, autojunk=False).get_matching_blocks()
    in_place = {name for match in matches for name in common_old[match.a : match.a + match.size]}
    found: list[ChangedBlock] = []
    for name, block in new.items():
        former = old.get(name)
        if former is None:
            found.append(ChangedBlock(change=BlockChange.ADDED, before=None, after=block))
        elif former.text != block.text:
            found.append(ChangedBlock(change=BlockChange.CHANGED, before=former, after=block))
        elif name not in in_place:
            found.append(ChangedBlock(change=BlockChange.MOVED, before=former, after=block))
    dropped = (block for name, block in old.items() if name not in new)
    found += [ChangedBlock(change=BlockChange.DROPPED, before=block, after=None) for block in dropped]
    return TurnDiff(blocks=tuple(found), cache=_find_break(before, after))


def _join_pieces(view: TurnView) -> Mapping[tuple[str, str], ShownBlock]:
    return {(block.kind.value, block.block_id): block for block in view.blocks if block.group != FRAME_GROUP}


def _find_break(before: TurnView, after: TurnView) -> CacheBreak | None:
    equal = 0
    for number, message in enumerate(after.messages):
        text = "".join(block.text for block in message.blocks)
        former = before.messages[number] if number < len(before.messages) else None
        old = "" if former is None else "".join(block.text for block in former.blocks)
        if former is not None and former.role == message.role and old == text:
            equal += len(text.encode("utf-8", "surrogatepass"))
            continue
        if former is None:
            return None
        at = next((place for place, (one, two) in enumerate(zip(old, text, strict=False)) if one != two), None)
        at = min(len(old), len(text)) if at is None else at
        block = next((each for each in message.blocks if each.start <= at < each.end), None)
        rest = sum(each.tokens for each in message.blocks if each.start >= at)
        if block is not None and block.start < at:
            rest += block.tokens * (block.end - at) // max(1, block.end - block.start)
        return CacheBreak(
            byte=equal + len(text[:at].encode("utf-8", "surrogatepass")),
            message=number,
            block=block,
            same=text[max(0, at - _SHOWN) : at],
            before=old[at : at + _SHOWN],
            after=text[at : at + _SHOWN],
            lost_tokens=rest + sum(each.tokens for each in after.messages[number + 1 :]),
        )
    return None
