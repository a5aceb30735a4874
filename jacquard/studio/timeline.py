"""Shows the timeline of a chat: its branches as a tree, and the state after each turn. A user can go back, fork and
edit there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from jacquard.remote.bodies import EditRequest, ForkRequest, RollbackRequest, SwitchRequest
from jacquard.service.values import Scope
from jacquard.studio.visit import Room, Visit, link
from mnemosyne.schema.session import SessionHead
from mnemosyne.values import dataclass

_PAGE = 20
"""Number of turns on a page."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeBranch:
    """A branch as the page shows it."""

    head: SessionHead
    level: int
    """Number of branches from which this branch comes, one from another."""
    fork_depth: int
    """Depth up to which this branch has the same turns as the shown branch."""


async def show_timeline(visit: Visit) -> Response:
    """Return the page of a branch, or only the state after one of its turns."""
    heads: Sequence[SessionHead] = await visit.ask("branches")
    wanted = visit.query.get("branch")
    shown = next((each for each in heads if each.branch_id == wanted), heads[0])
    depth = _read_number(visit.query.get("depth")) or shown.depth
    state = await _find_state(visit, shown.branch_id, depth) if visit.principal.viewer is None else {}
    if visit.is_partial and visit.request.headers.get("hx-target") == "detail":
        return await visit.show("_state.html", shown=shown, depth=depth, **state)
    before = _read_number(visit.query.get("before")) or (
        depth + _PAGE // 2 if "depth" in visit.query else shown.depth + 1
    )
    page = await visit.ask("list_turns", branch=shown.branch_id, before=max(before, 2), limit=_PAGE)
    tree = [_place(each, shown) for each in heads]
    return await visit.show(
        "timeline.html",
        shown=shown,
        active=heads[0].branch_id,
        page=page,
        newer=page.items[-1].depth + _PAGE + 1 if page.items and page.items[-1].depth < shown.depth else None,
        tree=sorted(tree, key=lambda each: [span.branch_id for span in reversed(each.head.lineage)]),
        others=_group_by_depth(tree, shown),
        depth=depth,
        is_live=visit.principal.allows(Scope.AUTHOR) and (not page.items or page.items[-1].depth == shown.depth),
        **state,
    )


async def _find_state(visit: Visit, branch_id: str, depth: int) -> Mapping[str, Any]:
    """Return the state after the turn of a depth, with what the turn changed; nothing if there is no such turn."""
    found = await visit.ask("list_turns", branch=branch_id, before=depth + 1, limit=1)
    if not found.items:
        return {"turn": None}
    turn = found.items[-1]
    changes = await visit.ask("get_changes", turn_id=turn.turn_id)
    return {"turn": turn, "changes": changes, "state": await visit.ask("get_state", turn=turn.turn_id)}


def _place(head: SessionHead, shown: SessionHead) -> TreeBranch:
    spans = {span.branch_id: span.upto_depth for span in shown.lineage}
    common = [min(span.upto_depth, spans[span.branch_id]) for span in head.lineage if span.branch_id in spans]
    return TreeBranch(head=head, level=len(head.lineage) - 1, fork_depth=max(common, default=0))


def _group_by_depth(tree: Sequence[TreeBranch], shown: SessionHead) -> Mapping[int, list[SessionHead]]:
    """Return the other branches by the depth of the first turn that differs."""
    found: dict[int, list[SessionHead]] = {}
    for each in tree:
        if each.head.branch_id != shown.branch_id:
            found.setdefault(each.fork_depth + 1, []).append(each.head)
    return found


def _read_number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 10 and int(text) > 0 else None


async def fork(visit: Visit) -> Response:
    """Open a branch after a turn."""
    form = await visit.form()
    await visit.ask("fork", body=ForkRequest(turn_id=form.get("turn_id")))
    return visit.go(_address(visit))


async def roll_back(visit: Visit) -> Response:
    """Go back to a turn."""
    form = await visit.form()
    await visit.ask("rollback", body=RollbackRequest(turn_id=form.get("turn_id")))
    return visit.go(_address(visit))


async def switch(visit: Visit) -> Response:
    """Make another branch the active one."""
    form = await visit.form()
    await visit.ask("switch", body=SwitchRequest(branch_id=form.get("branch_id", "")))
    return visit.go(_address(visit))


async def edit(visit: Visit) -> Response:
    """Give a message another text."""
    form = await visit.form()
    sent = EditRequest(content=form.get("content", "").replace("\r\n", "\n"))
    await visit.ask("edit_message", message_id=form.get("message_id", ""), body=sent)
    return visit.go(_address(visit))


def _address(visit: Visit) -> str:
    return link("s", visit.ids["session_id"], "timeline")


_PATH = "/s/{session_id}/timeline"
ROOM = Room(
    name="timeline",
    pages={
        f"GET {_PATH}": show_timeline,
        f"POST {_PATH}/fork": fork,
        f"POST {_PATH}/rollback": roll_back,
        f"POST {_PATH}/switch": switch,
        f"POST {_PATH}/edit": edit,
    },
)
