"""A played script as sections of a page of turns. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from evals.play.scores.figures import describe_figures, describe_item, sum_up
from evals.play.scores.prompt import ScoredTurn
from evals.play.script.values import Play
from jacquard.authoring.replay.turn_page import Check, FactRow, PageSection, PageTurn, Verdict


def play_section(play: Play, scored: Sequence[ScoredTurn]) -> PageSection:
    """Return the section of a play: its figures, and every turn with its checks."""
    return PageSection(
        title=f"{play.name} ({play.locale}, at most {play.budget} tokens a prompt)",
        turns=[_page_turn(each) for each in scored],
        figures=[*describe_figures(sum_up(scored)).items()],
    )


def _page_turn(each: ScoredTurn) -> PageTurn:
    played, score = each.played, each.score
    turn = played.turn
    branch = "" if played.before.branch == "main" else f" ({played.before.branch})"
    marked = {} if score is None else {f"flesh:{memory.entry_id}": "irrelevant" for memory in score.irrelevant}
    for wrong in () if score is None else score.wrong:
        before = marked.get(wrong.block_id)
        marked[wrong.block_id] = f"{before}; {wrong.fact} is wrong" if before else f"{wrong.fact} is wrong"
    reply = turn.reply or (played.prepared.reply if played.prepared is not None else None)
    if turn.fails is not None:
        reply = f"(the call failed: {turn.fails})"
    said = [("input", turn.input), *([("reply", reply)] if reply else [])]
    return PageTurn(
        heading=f"{turn.number}{branch} {' '.join(turn.input.split())}",
        view=each.view,
        said=said,
        checks=_checks(each),
        facts=_facts(each),
        marked=marked,
    )


def _checks(each: ScoredTurn) -> list[Check]:
    played, score = each.played, each.score
    turn, bad = played.turn, Verdict.BAD
    checks = [Check(verdict=bad, label="error", text=played.error)] if played.error else []
    if played.fault:
        checks.append(Check(verdict=bad, label="other way", text=played.fault))
    if turn.slips:
        checks.append(Check(verdict=Verdict.NOTE, label="slips of the reply", text=", ".join(turn.slips)))
    if played.result is not None and played.result.refused is not None:
        checks.append(Check(verdict=Verdict.NOTE, label="refused", text=str(played.result.refused)))
    if score is None:
        return checks
    checks += [Check(verdict=bad, label="missing", text=name) for name in score.missing]
    checks += [
        Check(verdict=bad, label="wrong", text=f"{wrong.fact}: {wrong.text} in block {wrong.block_id}")
        for wrong in score.wrong
    ]
    checks += [
        Check(
            verdict=bad,
            label="lost",
            text=describe_item(loss.item) + (" (told by the summary alone)" if loss.summarized else ""),
        )
        for loss in score.losses
    ]
    checks += [
        Check(
            verdict=bad,
            label="irrelevant",
            text=f"{memory.entry_id} ({', '.join(sorted(memory.labels)) or 'no label'})",
        )
        for memory in score.irrelevant
    ]
    if turn.ask is not None:
        told = "" if turn.ask.told is None else f", told in turn {turn.ask.told}"
        answers = " | ".join(answer.text for answer in turn.ask.answers)
        verdict, label = (Verdict.GOOD, "answered") if score.answered else (bad, "not answered")
        checks.append(Check(verdict=verdict, label=label, text=answers + told))
    return checks


def _facts(each: ScoredTurn) -> list[FactRow]:
    """Return every fact in force before a turn, and what the prompt has in its place."""
    if each.score is None:
        return []
    found = dict.fromkeys(each.score.missing, "is missing")
    found |= {wrong.fact: f"is wrong: {wrong.text}" for wrong in each.score.wrong}
    return [
        FactRow(
            name=name,
            wanted=" | ".join(pattern.text for pattern in fact.shown),
            forbidden=" | ".join(pattern.text for pattern in fact.wrong),
            found=found.get(name, ""),
        )
        for name, fact in each.played.before.facts_in_force().items()
    ]
