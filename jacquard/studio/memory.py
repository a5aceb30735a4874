"""Memory desk: the memories of a session, and how a person corrects them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import Response

from jacquard.core.errors import ConfigError, MemoryNotFoundError
from jacquard.memory.verbs.browse import ListedMemory
from jacquard.memory.verbs.values import Memory, MemoryAction, MemoryEdit
from jacquard.remote.bodies import (
    AcceptRequest,
    BulkAction,
    BulkAnswer,
    BulkRequest,
    ContinueRequest,
    MemoryTextRequest,
    RememberRequest,
    SearchRequest,
)
from jacquard.studio.visit import Room, Visit, link

KINDS: Mapping[str, str] = {
    "remembered": "lore",
    "document": "lore",
    "turn_summary": "narrative",
    "macro": "narrative",
    "thread": "event",
    "quest_update": "event",
    "message": "history",
}
"""Chains of the kinds of memories that one may ask for. The chain limits what is searched."""
CHAINS = tuple(dict.fromkeys(KINDS.values()))
STATES: Mapping[str, Mapping[str, Any]] = {
    "pinned": {"pinned": True},
    "current": {"superseded": False},
    "superseded": {"superseded": True},
}
FORGETTABLE = frozenset({"remembered", "document"})
UNDOABLE = frozenset(MemoryAction) - {MemoryAction.CONTINUE, MemoryAction.PROPOSE}
SUPERSEDE, CONTINUE = "supersede", "continue"
BULK = (*(each.value for each in BulkAction), SUPERSEDE)

_PAGE = 50
_MOST_FOUND = 30
_PICK = "pick."


async def show_memories(visit: Visit) -> Response:
    """Return a page with memories. If the query of the page has a question (`ask`), these are the memories that recall finds
    for the question. Otherwise they are the memories that pass the filters in the query.
    """
    asked = {name: visit.query.get(name, "").strip() for name in ("ask", "words", "by", "state", "viewer")}
    kind = visit.query.get("kind", "")
    chain, viewer = KINDS.get(kind, visit.query.get("chain", "")), asked["viewer"] or None
    found, page = (), None
    if asked["ask"]:
        body = SearchRequest(text=asked["ask"], limit=_MOST_FOUND)
        found = await visit.ask("search_memory", body=body, viewer=viewer)
    else:
        page = await visit.ask(
            "browse_memory",
            chain=chain or None,
            kind=kind or None,
            by=asked["by"] or None,
            query=asked["words"],
            cursor=visit.query.get("cursor", ""),
            limit=_PAGE,
            viewer=viewer,
            **STATES.get(asked["state"], {}),
        )
    people = () if page is None else {name for each in page.items for name in (each.author, *each.viewers) if name}
    return await _show(
        visit,
        "memory.html",
        asked=asked,
        kind=kind,
        chain=chain,
        found=found,
        page=page,
        newer={} if page is None else await _read_newer(visit, page.items, viewer),
        kinds=KINDS,
        states=STATES,
        people=sorted(people),
    )


async def _read_newer(visit: Visit, items: Sequence[ListedMemory], viewer: str | None) -> Mapping[str, str]:
    """Return the texts of the facts that hold instead of facts that a turn ended, by their ids. A thread has none."""
    texts = {each.memory_id: each.text for each in items}
    for name in {each.superseded_by for each in items if each.valid_to is not None} - set(texts):
        with suppress(MemoryNotFoundError):
            texts[name] = (await visit.ask("get_memory", memory_id=name, viewer=viewer)).text
    return texts


async def show_memory(visit: Visit) -> Response:
    """Return one memory: its text, its edits, and the turns whose prompts had it."""
    viewer = visit.query.get("viewer") or None
    memory = await visit.ask("get_memory", viewer=viewer)
    uses = await visit.ask("memory_uses", viewer=viewer)
    edits = related_edits(await visit.ask("memory_log", viewer=viewer), [memory.memory_id])
    list_address = urlsplit(visit.request.headers.get("hx-current-url", ""))
    back = f"{list_address.path}?{list_address.query}"
    template = "_memory.html" if visit.is_partial else "memory_one.html"
    return await _show(visit, template, memory=memory, uses=uses, edits=edits, back=back)


async def show_inbox(visit: Visit) -> Response:
    """Return a page of the proposals of models that wait for a decision, oldest first."""
    proposals, after = _cut_page(visit, await visit.ask("memory_proposals"))
    return await _show(visit, "memory_inbox.html", proposals=proposals, after=after)


async def show_log(visit: Visit) -> Response:
    """Return a page of the edits, newest first."""
    edits, after = _cut_page(visit, (await visit.ask("memory_log"))[::-1])
    return await _show(visit, "memory_log.html", edits=edits, after=after)


def _cut_page(visit: Visit, edits: Sequence[MemoryEdit]) -> tuple[Sequence[MemoryEdit], int | None]:
    """Return the edits of the page that the address names, and the number at which the next page begins (None: there is none)."""
    begin = int(text) if (text := visit.query.get("from", "")).isdecimal() and len(text) < 10 else 0
    after = begin + _PAGE
    return edits[begin:after], after if after < len(edits) else None


async def remember(visit: Visit) -> Response:
    """Remember a text. If parts of it will be masked, show them first."""
    form = await visit.form()
    text, title, viewer = form.get("text", ""), form.get("title", "").strip(), form.get("viewer", "").strip() or None

    async def write(dry_run: bool) -> MemoryEdit:
        body = RememberRequest(text=text, title=title, dry_run=dry_run)
        edit: MemoryEdit = await visit.ask("remember_memory", body=body, viewer=viewer)
        return edit

    return await _write(visit, form, "remember", write)


async def change_memory(visit: Visit) -> Response:
    """Correct a memory, or mark it as no longer true. If parts of the text will be masked, show them first."""
    form = await visit.form()
    name = "edit_memory" if form.get("do") == "edit" else "supersede_memory"

    async def write(dry_run: bool) -> MemoryEdit:
        body = MemoryTextRequest(text=form.get("text", ""), dry_run=dry_run)
        edit: MemoryEdit = await visit.ask(name, body=body)
        return edit

    return await _write(visit, form, form.get("do", SUPERSEDE), write)


async def _write(visit: Visit, form: Mapping[str, str], done: str, write: Any) -> Response:
    if "sure" not in form and (seen := await write(True)).redacted:
        return await _show(visit, "memory_masked.html", seen=seen, form=form)
    edit = await write(False)
    return _go_back(visit, form, done, edit.edit_id)


async def change_many(visit: Visit) -> Response:
    """Change several memories, after a page has shown which ones."""
    form = await visit.form()
    do, picks = form.get("do", ""), [name.removeprefix(_PICK) for name in form if name.startswith(_PICK)]
    if not picks or do not in (*BULK, CONTINUE):
        return _go_back(visit, form, "none")
    if do == CONTINUE:
        return await _show(visit, "memory_continue.html", picks=picks, form=form)
    if "sure" in form:
        await _change(visit, do, picks, form.get("reason", ""), dry_run=False)
        return _go_back(visit, form, do)
    memories: Sequence[Memory] = ()
    faults = ""
    try:
        memories = await _change(visit, do, picks, dry_run=True)
    except ConfigError as error:
        faults = str(error)
    former: list[str] = []
    if do == BulkAction.FORGET:
        texts = {each.after for each in related_edits(await visit.ask("memory_log"), picks)}
        former = sorted(texts - {"", *(each.text for each in memories)})
    return await _show(
        visit, "memory_many.html", do=do, memories=memories, faults=faults.splitlines(), former=former, form=form
    )


async def _change(visit: Visit, do: str, picks: Sequence[str], reason: str = "", *, dry_run: bool) -> Sequence[Memory]:
    if do != SUPERSEDE:
        body = BulkRequest(action=BulkAction(do), memory_ids=tuple(picks), reason=reason, dry_run=dry_run)
        answer: BulkAnswer = await visit.ask("change_memories", body=body)
        return answer.memories
    memories: list[Memory] = [await visit.ask("get_memory", memory_id=each) for each in picks]
    for each in () if dry_run else picks:
        await visit.ask("supersede_memory", memory_id=each)
    return memories


async def continue_in(visit: Visit) -> Response:
    """Start a session with the chosen memories, and lead to its memories."""
    form = await visit.form()
    picks = tuple(name.removeprefix(_PICK) for name in form if name.startswith(_PICK))
    name = form.get("new_session_id", "").strip()
    head = await visit.ask("continue_session", body=ContinueRequest(new_session_id=name, memory_ids=picks))
    return visit.go(link("s", head.session_id, "memory", done=CONTINUE))


async def undo(visit: Visit) -> Response:
    """Undo an edit."""
    form = await visit.form()
    await visit.ask("undo_memory_edit")
    return _go_back(visit, form, "undo")


async def decide(visit: Visit) -> Response:
    """Accept a proposal, with the text as the person left it, or reject it."""
    form = await visit.form()
    if form.get("do") == "accept":
        edit = await visit.ask("accept_proposal", body=AcceptRequest(text=form.get("text", "")))
        return _go_back(visit, form, "accept", edit.edit_id)
    await visit.ask("reject_proposal")
    return _go_back(visit, form, "reject")


def related_edits(edits: Sequence[MemoryEdit], memory_ids: Collection[str]) -> tuple[MemoryEdit, ...]:
    """Return the edits of memories and of the texts that they corrected, newest first."""
    chain, before = set(memory_ids), 0
    while len(chain) > before:
        before = len(chain)
        chain |= {
            name for each in edits for name in (each.edit_id, each.memory_id) if {each.edit_id, each.memory_id} & chain
        }
    return tuple(each for each in reversed(edits) if each.edit_id in chain)


async def _show(visit: Visit, template: str, **values: Any) -> Response:
    return await visit.show(
        template,
        at=partial(link, "s", visit.ids["session_id"], "memory"),
        undoable=UNDOABLE,
        forgettable=FORGETTABLE,
        chains=CHAINS,
        **values,
    )


def _go_back(visit: Visit, form: Mapping[str, str], done: str, edit: str | None = None) -> Response:
    """Lead to the view that the form came from, with a notice of what was done."""
    base = link("s", visit.ids["session_id"], "memory")
    back = form.get("back", "")
    address = back if back.partition("?")[0].startswith(base) else base
    told = link("", done=done, edit=edit or None).partition("?")[2]
    return visit.go(f"{address}{'&' if '?' in address else '?'}{told}")


_BASE = "/s/{session_id}/memory"
ROOM = Room(
    name="memory",
    pages={
        f"GET {_BASE}": show_memories,
        f"GET {_BASE}/one/{{memory_id}}": show_memory,
        f"POST {_BASE}/one/{{memory_id}}": change_memory,
        f"POST {_BASE}/new": remember,
        f"POST {_BASE}/many": change_many,
        f"POST {_BASE}/continue": continue_in,
        f"GET {_BASE}/inbox": show_inbox,
        f"POST {_BASE}/inbox/{{proposal_id}}": decide,
        f"GET {_BASE}/log": show_log,
        f"POST {_BASE}/log/{{edit_id}}": undo,
    },
)
