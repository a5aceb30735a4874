"""Scores one prompt of a play against the truth of its script. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from evals.play.engine import LATE_CODES, codes_of
from evals.play.host import PlayedTurn
from evals.play.scores.receipts import find_turns_left_out, order_of, read_named_ids
from evals.play.script.values import CHECKPOINTS, Fact, Pattern, Play
from evals.play.session import Item, ItemKind, Path
from filament import clean_text
from jacquard import PreparedTurn
from jacquard.authoring.replay.turn_view import TurnView, view_turn

_TELLING_CHARS = 8
_FLESH = "flesh:"
_INPUT = "input"
_SUMMARIZED = "summarized"
_MEMORIES = "memories"
_TALK = frozenset({"talk", "memories", "input", "evidence"})


@dataclass(frozen=True, kw_only=True, slots=True)
class WrongFact:
    """A text that contradicts the script, and the block that states it."""

    fact: str
    text: str
    block_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """An item that the prompt does not contain itself. `summarized`: the receipt states that its summary covers that
    turn; else the receipt does not mention it.
    """

    item: Item
    summarized: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class RecalledMemory:
    """A recalled memory in the prompt; `wanted`: a label of it, or its id, is among those of the turn (None: it has none)."""

    entry_id: str
    labels: frozenset[str]
    tokens: int
    wanted: bool | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptScore:
    """The scores of one prompt. `facts` is how many were in force, `answered` None if nothing was asked. Of
    `key_facts`, which are counted at CHECKPOINTS only, those of `key_missing` are not in it.

    `reused_bytes` of `total_bytes` are the same as in the prompt before, from the first byte on.
    """

    facts: int = 0
    missing: tuple[str, ...] = ()
    wrong: tuple[WrongFact, ...] = ()
    items: int = 0
    losses: tuple[Loss, ...] = ()
    recalled: tuple[RecalledMemory, ...] = ()
    off_topic_evidence: tuple[str, ...] = ()
    answered: bool | None = None
    key_facts: int = 0
    key_missing: tuple[str, ...] = ()
    tokens: int = 0
    tokens_by_group: Mapping[str, int] = field(default_factory=dict)
    reused_bytes: int = 0
    total_bytes: int = 0
    late: tuple[str, ...] = ()

    @property
    def irrelevant(self) -> tuple[RecalledMemory, ...]:
        """Return the memories that were recalled and should not have been."""
        return tuple(each for each in self.recalled if each.wanted is False)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredTurn:
    """A prompt with its view and its scores; both are None if the engine gave no prompt, or needed none."""

    played: PlayedTurn
    view: TurnView | None = None
    score: PromptScore | None = None


def score_play(play: Play, played: tuple[PlayedTurn, ...]) -> tuple[ScoredTurn, ...]:
    """Return every prompt of a play with its scores, in the order of play."""
    scored = []
    last = b""
    for each in played:
        if each.prepared is None or each.prepared.reply is not None:
            scored.append(ScoredTurn(played=each))
            continue
        view, data = view_turn(each.prepared), _bytes_of(each.prepared)
        score = score_prompt(play, each, each.prepared, view, _shared(last, data), len(data))
        scored.append(ScoredTurn(played=each, view=view, score=score))
        last = data
    return tuple(scored)


def score_prompt(
    play: Play, played: PlayedTurn, prepared: PreparedTurn, view: TurnView, reused_bytes: int, total_bytes: int
) -> PromptScore:
    """Return the scores of one prompt."""
    turn, path = played.turn, played.before
    shown = "\n".join(block.plain for block in view.blocks if block.group != _INPUT)
    facts = path.facts_in_force()
    recalled = _score_flesh(play, played, prepared, view)
    answered = None
    if turn.ask is not None:
        fits = prepared.report.budget.used_tokens <= play.budget
        answered = fits and any(answer.find_in(shown) for answer in turn.ask.answers)
    key_facts = _find_key_facts(play, played)
    return PromptScore(
        facts=len(facts),
        missing=tuple(
            name for name, fact in facts.items() if fact.shown and not any(p.find_in(shown) for p in fact.shown)
        ),
        wrong=tuple(_find_wrong(facts, view)),
        items=len(path.items()),
        losses=tuple(_find_losses(path, prepared, view)),
        recalled=recalled,
        off_topic_evidence=_find_off_topic_evidence(played, view),
        answered=answered,
        key_facts=len(key_facts),
        key_missing=tuple(name for name, texts in key_facts.items() if not any(p.find_in(shown) for p in texts)),
        tokens=prepared.report.budget.used_tokens,
        tokens_by_group=view.tokens,
        reused_bytes=reused_bytes,
        total_bytes=total_bytes,
        late=tuple(sorted(codes_of(prepared) & LATE_CODES)),
    )


def _find_key_facts(play: Play, played: PlayedTurn) -> dict[str, tuple[Pattern, ...]]:
    """Return the key facts of the turns before, if the prompt is searched for them."""
    if played.turn.number not in CHECKPOINTS:
        return {}
    told = {step.number for step in played.before.steps if step.answered}
    return {name: texts for turn in play.turns if turn.number in told for name, texts in turn.key_facts.items()}


def _find_wrong(facts: Mapping[str, Fact], view: TurnView) -> list[WrongFact]:
    """Return the prompt's contradictions of the script, outside of talk and of limits, which are not values."""
    stating = [block for block in view.blocks if block.group not in _TALK and block.block_id != "limits"]
    return [
        WrongFact(fact=name, text=found, block_id=block.block_id)
        for name, fact in facts.items()
        for wrong in fact.wrong
        for block in stating
        if (found := wrong.find_first(block.plain)) is not None
    ]


def _find_losses(path: Path, prepared: PreparedTurn, view: TurnView) -> list[Loss]:
    # A retry has the turn of the failed call, and its message is the input.
    path = replace(path, steps=tuple(step for step in path.steps if step.turn_id != prepared.turn_id))
    items = path.items()
    order, named = order_of(items), read_named_ids(prepared.report)
    shown = {_entry_of(block.block_id) for block in view.blocks if block.group != _INPUT}
    text = _squeeze("\n".join(block.plain for block in view.blocks if block.group != _INPUT))
    left_out = find_turns_left_out(path, prepared)
    return [
        Loss(item=item, summarized=code == _SUMMARIZED)
        for item in items
        if not (shown & {*item.ids} or _is_quoted(item, text) or named.covers(item, order))
        and (code := left_out.get(item.ids[-1], "") if _is_talk(item) else "") in ("", _SUMMARIZED)
    ]


def _entry_of(block_id: str) -> str:
    """Return the id of the entry or message that a block shows; one that another kind has too begins with the kind."""
    return block_id.rpartition(_FLESH)[2]


def _is_talk(item: Item) -> bool:
    return item.kind in (ItemKind.MESSAGE, ItemKind.REPLY)


def _is_quoted(item: Item, text: str) -> bool:
    """Say whether the prompt contains a text as a whole; a short one may be in it by chance."""
    said = _squeeze(item.text)
    return len(said) >= _TELLING_CHARS and said in text


def _score_flesh(play: Play, played: PlayedTurn, prepared: PreparedTurn, view: TurnView) -> tuple[RecalledMemory, ...]:
    labels, wanted = played.before.labels(), played.turn.relevant
    candidates = {each.entry_id: each for each in prepared.report.stream_b.candidates}
    found: dict[str, RecalledMemory] = {}
    for block in view.blocks:
        if block.group != _MEMORIES or _FLESH not in block.block_id:
            continue
        entry_id = _entry_of(block.block_id)
        turn_id = candidates[entry_id].turn_id if entry_id in candidates else None
        own = play.lore_labels.get(entry_id, frozenset()) | labels.get(turn_id or "", frozenset())
        tokens = block.tokens + (found[entry_id].tokens if entry_id in found else 0)
        fits = None if wanted is None else bool((own | {entry_id}) & wanted)
        found[entry_id] = RecalledMemory(entry_id=entry_id, labels=own, tokens=tokens, wanted=fits)
    return tuple(found.values())


def _find_off_topic_evidence(played: PlayedTurn, view: TurnView) -> tuple[str, ...]:
    """Return the evidence in the prompt whose labels do not meet those of the turn."""
    wanted, labels = played.turn.relevant, played.before.item_labels()
    if wanted is None:
        return ()
    shown = dict.fromkeys(block.block_id for block in view.blocks if block.group == "evidence")
    named = {block_id: next((labels[name] for name in labels if name in block_id), None) for block_id in shown}
    return tuple(block_id for block_id, own in named.items() if own is not None and not own & wanted)


def _bytes_of(prepared: PreparedTurn) -> bytes:
    return "\x00".join(f"{each.role}\n{each.content}" for each in prepared.messages).encode("utf-8", "replace")


def _shared(a: bytes, b: bytes) -> int:
    """Return how many bytes two texts share from their first on."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[:middle] == b[:middle] else (low, middle - 1)
    return low


def _squeeze(text: str) -> str:
    return "".join(clean_text(text).split())
