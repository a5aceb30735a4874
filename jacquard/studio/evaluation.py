"""Evaluation: marks of what the prompt of a turn should have had, runs over them, and reports of runs and plays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.responses import Response

from jacquard.authoring.marks import TurnMark
from jacquard.core.receipt import CandidateDecision
from jacquard.remote.bodies import Evaluation, EvaluationRequest, MarkRequest, ReceiptAnswer, SearchRequest
from jacquard.service.http.handlers.evaluations import LISTED_METRICS, RETRIEVERS, SELECTORS
from jacquard.service.values import Scope
from jacquard.studio.visit import Room, Visit, link
from mnemosyne.schema.session import Role
from mnemosyne.values import dataclass

GOAL = 20
"""Number of labelled turns that a person aims at; fewer, if the conversation has fewer turns."""
MARKS: Mapping[str, bool | None] = {"yes": True, "no": False, "": None}
_NEAREST = 200
_MOST_FOUND = 10
_MOST_NAMED = 50
_PAGE = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Progress of a person who labels a conversation."""

    labelled: int
    goal: int
    next_id: str | None
    """Turn without marks to look at next."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledMemory:
    """A memory that can be marked in a turn."""

    memory_id: str
    text: str
    title: str = ""
    kind: str = ""
    turn_id: str | None = None
    rank: int | None = None
    is_shown: bool = False


def may_label(visit: Visit) -> bool:
    """Return whether the caller may mark memories."""
    return visit.principal.allows(Scope.AUTHOR) and visit.principal.viewer is None


def wanted_in(marks: tuple[TurnMark, ...], turn_id: str) -> dict[str, bool]:
    """Return the judgements of a turn by the ids of memories and of their entries."""
    return {
        name: each.wanted for each in marks if each.turn_id == turn_id for name in (each.memory_id, *each.entry_ids)
    }


async def find_marks(visit: Visit, turn_id: str) -> dict[str, bool] | None:
    """Return the judgements of a turn. Return None if the caller may not mark memories."""
    return wanted_in(await visit.ask("list_marks"), turn_id) if may_label(visit) else None


async def find_labels(visit: Visit, turn_id: str, depth: int, receipt: ReceiptAnswer) -> Mapping[str, Any]:
    """Return the values of the view of a turn in which a person marks memories."""
    stream = receipt.report.stream_b
    listed = [_label_of(each) for each in (*stream.candidates, *receipt.report.evidence)]
    words = visit.query.get("find", "").strip()
    known = {each.memory_id for each in listed}
    found = await visit.ask("search_memory", body=SearchRequest(text=words, limit=_MOST_FOUND)) if words else ()
    searched = [
        LabelledMemory(memory_id=each.memory_id, text=each.text, title=each.title, kind=each.kind, turn_id=each.turn_id)
        for each in found
        if each.memory_id not in known
    ]
    return {
        "listed": sorted(listed, key=lambda each: (not each.is_shown, each.rank or 0)),
        "searched": searched,
        "words": words,
        "progress": await find_progress(visit, turn_id, depth),
    }


def _label_of(candidate: CandidateDecision) -> LabelledMemory:
    return LabelledMemory(
        memory_id=candidate.entry_id,
        text=candidate.preview,
        title=candidate.title,
        kind=candidate.kind,
        turn_id=candidate.turn_id,
        rank=candidate.rank,
        is_shown=candidate.chosen,
    )


async def find_progress(visit: Visit, turn_id: str = "", depth: int | None = None) -> Progress:
    """Return how many turns of the session are labelled, and the next turn to label: an older one than `turn_id`, or else
    the newest.
    """
    labelled = {each.turn_id for each in await visit.ask("list_marks")}
    head = await visit.ask("get_session_head")
    following: str | None = None
    for before in (depth, None) if depth is not None and depth > 1 else (None,):
        page = await visit.ask("list_turns", before=before, limit=_NEAREST)
        left = [
            each.turn_id
            for each in reversed(page.items)
            if each.turn_id not in labelled | {turn_id} and any(said.role is Role.USER for said in each.messages)
        ]
        if left:
            following = left[0]
            break
    return Progress(labelled=len(labelled), goal=max(1, min(GOAL, head.depth)), next_id=following)


async def mark(visit: Visit) -> Response:
    """Mark a memory in a turn, or take the mark back."""
    form = await visit.form()
    memory_id, wanted = form.get("memory_id", ""), MARKS.get(form.get("wanted", ""))
    await visit.ask("mark_memory", memory_id=memory_id, body=MarkRequest(wanted=wanted))
    session_id, turn_id = visit.ids["session_id"], visit.ids["turn_id"]
    if not visit.is_partial:
        return visit.go(link("s", session_id, "t", turn_id, view="label"))
    is_listed = "listed" in form
    return await visit.show(
        "_mark.html",
        session_id=session_id,
        turn_id=turn_id,
        memory_id=memory_id,
        wanted=wanted,
        is_listed=is_listed,
        progress=await find_progress(visit, turn_id) if is_listed else None,
    )


async def show_evaluations(visit: Visit) -> Response:
    """Return the list of reports and, in a session, its labels and the form of a new run."""
    values: dict[str, Any] = {"progress": None, "newest": None}
    if "session_id" in visit.ids:
        head = await visit.ask("get_session_head")
        values = {"progress": await find_progress(visit), "newest": head.turn_id}
    page = await visit.ask("list_evaluations", offset=visit.query.get("offset", "0"), limit=_PAGE)
    return await _show(visit, "evaluation.html", page=page, retrievers=RETRIEVERS, selectors=SELECTORS, **values)


async def run(visit: Visit) -> Response:
    """Run an evaluation over the marks of a session, and lead to its report."""
    form = await visit.form()
    floor = form.get("floor", "").strip()
    body = EvaluationRequest(
        name=form.get("name", "").strip(),
        retriever=form.get("retriever", ""),
        selector=form.get("selector", ""),
        floor=_read_floor(floor) if floor else None,
    )
    done = await visit.ask("run_evaluation", body=body)
    return visit.go(link("s", visit.ids["session_id"], "evaluation", "runs", done.run_id))


def _read_floor(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0  # which the operation refuses


async def show_evaluation(visit: Visit) -> Response:
    """Return one report: its figures, and the questions that a person may look at."""
    figures = await visit.ask("get_evaluation")
    offset = visit.query.get("offset", "0")
    others = await visit.ask("list_evaluations", limit=_MOST_NAMED)
    questions, after = None, None
    faults: tuple[Any, ...] = ()
    if figures.evaluation.kind == "run":
        is_lost = "false" if visit.query.get("show") == "all" else "true"
        category = visit.query.get("category") or None
        questions = await visit.ask("list_questions", lost=is_lost, category=category, offset=offset)
    else:
        found = [
            (play.name, turn)
            for play in figures.plays
            for turn in play.turns
            if turn.error or turn.missing or turn.wrong or turn.lost or turn.answered is False
        ]
        begin = int(offset) if offset.isdecimal() and len(offset) < 10 else 0
        faults, after = tuple(found[begin : begin + _PAGE]), begin + _PAGE if len(found) > begin + _PAGE else None
    return await _show(
        visit,
        "evaluation_run.html",
        figures=figures,
        others=[each for each in others.items if _is_comparable(each, figures.evaluation)],
        questions=questions,
        faults=faults,
        after=after,
    )


def _is_comparable(other: Evaluation, run: Evaluation) -> bool:
    return other.kind == run.kind == "run" and other.data == run.data and other.run_id != run.run_id


async def compare(visit: Visit) -> Response:
    """Return the comparison of two runs."""
    sent = {name: visit.query.get(name, "") for name in ("a", "b")}
    if not all(sent.values()):
        return visit.go(_base(visit))
    metric = visit.query.get("metric", "precision@5")
    found = await visit.ask(
        "compare_evaluations",
        run_id=sent["a"],
        other_id=sent["b"],
        metric=metric,
        offset=visit.query.get("offset", "0"),
    )
    return await _show(visit, "evaluation_compare.html", found=found, metrics=LISTED_METRICS)


async def export(visit: Visit) -> Response:
    """Return the marks of a session as a labelled set with a gate."""
    answer: Response = await visit.ask("export_marks")
    return answer


def _base(visit: Visit) -> str:
    session_id = visit.ids.get("session_id")
    return link("studio", "evaluation") if session_id is None else link("s", session_id, "evaluation")


async def _show(visit: Visit, template: str, **values: Any) -> Response:
    parts = ("studio", "evaluation") if "session_id" not in visit.ids else ("s", visit.ids["session_id"], "evaluation")
    return await visit.show(template, at=partial(link, *parts), session_id=visit.ids.get("session_id"), **values)


_OF_SESSION, _OF_ALL = "/s/{session_id}/evaluation", "/studio/evaluation"
ROOM = Room(
    name="evaluation",
    pages={
        f"GET {_OF_SESSION}": show_evaluations,
        f"GET {_OF_ALL}": show_evaluations,
        f"POST {_OF_SESSION}": run,
        f"GET {_OF_SESSION}/set": export,
        **{f"GET {base}/compare": compare for base in (_OF_SESSION, _OF_ALL)},
        **{f"GET {base}/runs/{{run_id}}": show_evaluation for base in (_OF_SESSION, _OF_ALL)},
        "POST /s/{session_id}/t/{turn_id}/marks": mark,
    },
)
