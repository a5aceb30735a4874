"""The figures of plays: sums over prompts, as values, as JSON and as a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from evals.play.scores.prompt import PromptScore, ScoredTurn
from evals.play.script.values import Play
from evals.play.session import Item


@dataclass(frozen=True, kw_only=True, slots=True)
class PlayFigures:
    """The figures of one play, or of several together.

    `turns` were played, `prompts` of them made for a model; `failed` ended in an error and `mismatched` went another way than
    the script says. `facts` counts the facts in force over all prompts, `missing` and `wrong` those that a prompt lacks or
    contradicts. `lost` counts the things of the session that some prompt neither holds nor names in its receipt, once each,
    and `summarized_only` those others of which some prompt has only what its summary tells, as its receipt says. `irrelevant` of
    `recalled` memories came in `labelled` prompts. Of `asked` questions the prompt holds an answer to `answered`; of
    `key_facts`, counted at CHECKPOINTS, prompts hold `key_told`.
    """

    turns: int
    prompts: int
    failed: int
    mismatched: int
    facts: int
    missing: int
    wrong: int
    items: int
    lost: int
    summarized_only: int
    labelled: int
    recalled: int
    irrelevant: int
    irrelevant_tokens: int
    off_topic_evidence: int
    asked: int
    answered: int
    key_facts: int
    key_told: int
    mean_tokens: float
    most_tokens: int
    tokens_by_group: Mapping[str, float]
    reused_share: float
    late: int

    @property
    def answered_share(self) -> float | None:
        """The share of the questions that can be answered, None if nothing was asked."""
        return self.answered / self.asked if self.asked else None

    @property
    def irrelevant_per_turn(self) -> float | None:
        """Irrelevant memories a labelled prompt, None if nothing is labelled."""
        return self.irrelevant / self.labelled if self.labelled else None


def sum_up(*plays: Sequence[ScoredTurn]) -> PlayFigures:
    """Return the figures of one play, or of several together."""
    scored = [each for play in plays for each in play]
    scores = [each.score for each in scored if each.score is not None]
    labelled = [score for score, each in _pairs(scored) if each.played.turn.relevant is not None]
    found = [_losses(play) for play in plays]
    groups = dict.fromkeys(group for score in scores for group in score.tokens_by_group)
    return PlayFigures(
        turns=len(scored),
        prompts=len(scores),
        failed=sum(bool(each.played.error) for each in scored),
        mismatched=sum(bool(each.played.fault) for each in scored),
        facts=sum(score.facts for score in scores),
        missing=sum(len(score.missing) for score in scores),
        wrong=sum(len({each.fact for each in score.wrong}) for score in scores),
        items=sum(len({item.ids[0] for each in play for item in each.played.before.items()}) for play in plays),
        lost=sum(len(lost) for lost, _ in found),
        summarized_only=sum(len(summarized) for _, summarized in found),
        labelled=len(labelled),
        recalled=sum(len(score.recalled) for score in labelled),
        irrelevant=sum(len(score.irrelevant) for score in labelled),
        irrelevant_tokens=sum(each.tokens for score in labelled for each in score.irrelevant),
        off_topic_evidence=sum(len(score.off_topic_evidence) for score in labelled),
        # A question for which there is no prompt is not answered.
        asked=sum(each.played.turn.ask is not None for each in scored),
        answered=sum(score.answered is True for score in scores),
        key_facts=sum(score.key_facts for score in scores),
        key_told=sum(score.key_facts - len(score.key_missing) for score in scores),
        mean_tokens=fmean(score.tokens for score in scores) if scores else 0.0,
        most_tokens=max((score.tokens for score in scores), default=0),
        tokens_by_group={g: fmean(score.tokens_by_group.get(g, 0) for score in scores) for g in groups},
        reused_share=_reused_share(scores),
        late=sum(bool(score.late) for score in scores),
    )


def _pairs(scored: Sequence[ScoredTurn]) -> list[tuple[PromptScore, ScoredTurn]]:
    return [(each.score, each) for each in scored if each.score is not None]


def _losses(play: Sequence[ScoredTurn]) -> tuple[set[str], set[str]]:
    """Return the ids of items that were ever lost in a play, and of other ones that were ever only in the summary."""
    losses = [loss for score, _ in _pairs(play) for loss in score.losses]
    lost = {loss.item.ids[0] for loss in losses if not loss.summarized}
    return lost, {loss.item.ids[0] for loss in losses} - lost


def _reused_share(scores: Sequence[PromptScore]) -> float:
    total = sum(score.total_bytes for score in scores)
    return sum(score.reused_bytes for score in scores) / total if total else 0.0


def figures_json(figures: PlayFigures) -> dict[str, Any]:
    """Return the figures as plain values."""
    return {
        **{name: getattr(figures, name) for name in figures.__dataclass_fields__},
        "mean_tokens": round(figures.mean_tokens, 1),
        "tokens_by_group": {name: round(value, 1) for name, value in figures.tokens_by_group.items()},
        "reused_share": round(figures.reused_share, 4),
        "answered_share": figures.answered_share,
        "irrelevant_per_turn": figures.irrelevant_per_turn,
    }


def play_json(play: Play, scored: Sequence[ScoredTurn]) -> dict[str, Any]:
    """Return a played script as plain values: its figures, and every turn with what is wrong in it."""
    return {
        "name": play.name,
        "locale": play.locale,
        "budget": play.budget,
        "figures": figures_json(sum_up(scored)),
        "turns": [_turn_json(each) for each in scored],
    }


def _turn_json(each: ScoredTurn) -> dict[str, Any]:
    played, score = each.played, each.score
    plain: dict[str, Any] = {
        "turn": played.turn.number,
        "branch": played.before.branch,
        "input": played.turn.input,
        "slips": list(played.turn.slips),
    }
    if played.error:
        plain["error"] = played.error
    if played.fault:
        plain["fault"] = played.fault
    if played.result is not None and played.result.refused is not None:
        plain["refused"] = str(played.result.refused)
    if score is None:
        return plain
    return {
        **plain,
        "tokens": score.tokens,
        "tokens_by_group": dict(score.tokens_by_group),
        "reused_bytes": score.reused_bytes,
        "total_bytes": score.total_bytes,
        "missing": list(score.missing),
        "wrong": [{"fact": w.fact, "text": w.text, "block": w.block_id} for w in score.wrong],
        "lost": [
            describe_item(loss.item) + (" (told by the summary alone)" if loss.summarized else "")
            for loss in score.losses
        ],
        "recalled": [{"id": r.entry_id, "labels": sorted(r.labels), "wanted": r.wanted} for r in score.recalled],
        "off_topic_evidence": list(score.off_topic_evidence),
        "answered": score.answered,
        "key_missing": list(score.key_missing),
        "told": None if played.turn.ask is None else played.turn.ask.told,
        "late": list(score.late),
    }


def describe_item(item: Item) -> str:
    """Return a thing of the session for people: what it is, of which turn, and how it begins."""
    words = " ".join(item.text.split())
    return f"{item.kind} of turn {item.turn}: {words if len(words) <= 60 else words[:59] + '…'}"


def describe_figures(figures: PlayFigures) -> dict[str, str]:
    """Return the figures as short texts, by what they are."""
    per_turn = figures.irrelevant_per_turn
    return {
        "turns": str(figures.turns),
        "errors": str(figures.failed),
        "other way": str(figures.mismatched),
        "missing": f"{figures.missing}/{figures.facts}",
        "wrong": str(figures.wrong),
        "lost": f"{figures.lost}/{figures.items}",
        "summarized": str(figures.summarized_only),
        "irrelevant": "–" if per_turn is None else f"{figures.irrelevant} ({per_turn:.2f})",
        "evidence": str(figures.off_topic_evidence),
        "answered": f"{figures.answered}/{figures.asked}" if figures.asked else "–",
        "key facts": f"{figures.key_told}/{figures.key_facts}" if figures.key_facts else "–",
        "tokens": f"{figures.mean_tokens:.0f}",
        "most": str(figures.most_tokens),
        "reused": f"{100 * figures.reused_share:.0f} %",
        "late": str(figures.late),
    }


def print_figures(rows: Mapping[str, PlayFigures], console: Console) -> None:
    """Print one row of figures a play."""
    table = Table(box=None, pad_edge=False)
    table.add_column("play")
    for name in describe_figures(next(iter(rows.values()))) if rows else ():
        table.add_column(name, justify="right")
    for name, each in rows.items():
        table.add_row(Text(name), *describe_figures(each).values())
    console.print(table)


def print_play(play: Play, scored: Sequence[ScoredTurn], console: Console) -> None:
    """Print what is wrong in a play, turn by turn."""
    console.print(Text(f"\n{play.name}"))
    for line in describe_faults(scored):
        console.print(Text(line))


def describe_faults(scored: Sequence[ScoredTurn]) -> list[str]:
    """Return a sentence for every fault: facts where they begin to be missing or wrong, losses once, the others at each turn."""
    lines: list[str] = []
    open_faults: set[tuple[str, str]] = set()
    told: set[str] = set()
    for each in scored:
        turn, score = each.played.turn, each.score
        label = f"turn {turn.number}" + (
            "" if each.played.before.branch == "main" else f" ({each.played.before.branch})"
        )
        lines += [f"{label}: {text}" for text in (each.played.error, each.played.fault) if text]
        if score is None:
            continue
        now = [
            *((("missing", name), f"{name} is missing") for name in score.missing),
            *(
                (("wrong", w.fact + w.text), f"{w.fact} is wrong: {w.text!r} in block {w.block_id}")
                for w in score.wrong
            ),
        ]
        lines += [f"{label}: {text}" for key, text in now if key not in open_faults]
        open_faults = {key for key, _ in now}
        lost = {loss.item.ids[0]: loss.item for loss in score.losses if not loss.summarized}
        lines += [f"{label}: lost: {describe_item(item)}" for name, item in lost.items() if name not in told]
        told |= lost.keys()
        lines += [
            f"{label}: irrelevant: {r.entry_id} ({', '.join(sorted(r.labels)) or 'no label'})" for r in score.irrelevant
        ]
        if score.answered is False:
            lines.append(f"{label}: not answered: {turn.input}")
        if score.key_missing:
            lines.append(f"{label}: key facts that are not told: {', '.join(score.key_missing)}")
    return lines


def print_questions(report: Mapping[str, Any], console: Console) -> None:
    """Print what came of the questions of a labelled set, all and by category, in percent."""
    table = Table(box=None, pad_edge=False, title=f"{report['set']}, prompts of at most {report['budget']} tokens")
    for name in ("questions", "asked", "evidence in prompt", "answer in prompt", "date in prompt", "tokens"):
        table.add_column(name, justify="left" if name == "questions" else "right")
    for name, each in {"all": report["all"], **report["by_category"]}.items():
        shares = [
            "–" if each[part] is None else f"{100 * each[part]:.1f} % of {each[f'{part}_of']}"
            for part in ("evidence", "answer", "date")
        ]
        tokens = "–" if each["tokens"] is None else f"{each['tokens']:.0f}"
        table.add_row(Text(name or "(none)"), str(each["questions"]), *shares, tokens)
    console.print(table)
