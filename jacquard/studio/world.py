"""Shows a world to its author: its files in an editor with their faults, previews at recorded turns, golden cases, and lore.

A preview and a lore match need a conversation of the world. The address of each page names it (`s`, and the depth `at` of a turn).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from anyio import to_thread
from starlette.responses import Response

from filament import PayloadError, load_yaml
from jacquard.authoring.yaml_edits import edit_yaml
from jacquard.core.errors import ConfigError, JacquardError
from jacquard.remote.bodies import (
    GoldenCaseRequest,
    GoldenRequest,
    LintAnswer,
    LintRequest,
    MatchRequest,
    PreviewRequest,
    WorldFilesRequest,
)
from jacquard.service.answers import Refusal
from jacquard.studio.forms import ABSENT, Control, make_widget, name_item, read_widget
from jacquard.studio.visit import Room, Visit, link
from mnemosyne.core.errors import ContextEngineError
from mnemosyne.world.format.fields import FILES

_PAGE = 50
_MOST_LINES = 400
_MOST_FIELDS = 20_000
_DEFAULT_FILE = "world.yaml"
NEW = "new"
"""Part of a list file that is a new entry."""


async def show_worlds(visit: Visit) -> Response:
    """Return the list of worlds."""
    return await visit.show("worlds.html", worlds=await visit.ask("list_worlds"))


async def show_world_of(visit: Visit) -> Response:
    """Lead the browser from a conversation to its world, at the turn `at` of the address."""
    session_id = visit.ids["session_id"]
    head = await visit.ask("get_session_head")
    if not head.world_id or all(each.world_id != head.world_id for each in await visit.ask("list_worlds")):
        return visit.go("/studio/worlds")
    return visit.go(link("studio", "worlds", head.world_id, s=session_id, at=visit.query.get("at")))


async def show_file(visit: Visit) -> Response:
    """Return a page with the files of a world, one of them in the editor."""
    return await _show_file(visit, visit.query.get("file", ""))


async def _show_file(visit: Visit, name: str, **more: Any) -> Response:
    listed = await visit.ask("list_world_files")
    names = tuple(dict.fromkeys((*listed.files, *listed.shipped)))
    name = name or next((each for each in (_DEFAULT_FILE, *names) if each in names), "")
    file = await visit.ask("get_world_file", file_name=name) if name in names else None
    values = {"listed": listed, "name": name, "file": file, "text": "" if file is None else file.text, **more}
    values["has_form"] = file is not None and control_of(name) is not None
    return await _show(visit, "world.html", **values)


async def lint_file(visit: Visit) -> Response:
    """Return the faults that the world would have with the text of the form."""
    form = await visit.form()
    lint = await visit.ask("lint_world_files", body=LintRequest(files=_read_change(form)))
    if visit.is_partial:
        return await _show(
            visit, "_world_faults.html", lint=_sort_own_first(lint, form.get("file", "")), name=form.get("file", "")
        )
    return await _show_file(visit, form.get("file", ""), text=_text_of(form), lint=lint, read=form.get("read", ""))


async def preview_file(visit: Visit) -> Response:
    """Return the prompt of a recorded turn with the text of the form, compared with what was sent."""
    form = await visit.form()
    session_id, at = form.get("s", "").strip(), form.get("at", "").strip()
    values: dict[str, Any] = {"preview": None, "turn": None, "fault": None}
    try:
        turn = await _find_turn(visit, session_id, at)
        values["turn"] = turn
        if turn is not None:
            values["preview"] = await visit.ask(
                "preview_templates",
                session_id=session_id,
                turn_id=turn.turn_id,
                body=PreviewRequest(files=_read_change(form) if form.get("file") else {}),
            )
    except (ContextEngineError, Refusal) as error:
        values["fault"] = str(error)
    if visit.is_partial:
        return await _show(visit, "_world_preview.html", session=session_id, **values)
    return await _show_file(
        visit,
        form.get("file", ""),
        text=_text_of(form),
        read=form.get("read", ""),
        session=session_id,
        at=at,
        shown=values,
    )


async def _find_turn(visit: Visit, session_id: str, at: str) -> Any:
    """Return the turn at the depth `at` of a conversation, or its newest turn if `at` is ''. None if there is no such turn."""
    if not session_id:
        return None
    depth = int(at) if at.isdecimal() and len(at) < 10 else None
    page = await visit.ask("list_turns", session_id=session_id, before=None if depth is None else depth + 1, limit=1)
    found = page.items[-1] if page.items else None
    return found if found is None or depth is None or found.depth == depth else None


async def save_file(visit: Visit) -> Response:
    """Store the text of the form, or remove the file. If the world would have a fault, show all faults and the text."""
    form = await visit.form()
    name = form.get("file", "").strip()
    is_removed = form.get("do") == "remove"
    change: dict[str, str | None] = {name: None} if is_removed else _read_change(form)
    read = {name: form["read"]} if form.get("read") else {}
    try:
        await visit.ask("put_world_files", body=WorldFilesRequest(files=change, read=read))
    except (ContextEngineError, Refusal) as error:
        if isinstance(error, Refusal) and error.status != 409:
            raise
        lint = await _lint_or_none(visit, change)
        fault = str(error) if lint is None or not lint.errors else None
        return await _show_file(
            visit, name, text=_text_of(form), lint=lint, fault=fault, read=form.get("read", ""), is_refused=True
        )
    done = "removed" if is_removed else "saved"
    at = {"s": form.get("s") or None, "at": form.get("at") or None}
    return visit.go(_address(visit, file=None if is_removed else name, done=done, **at))


async def _lint_or_none(visit: Visit, change: Mapping[str, str | None]) -> LintAnswer | None:
    try:
        lint: LintAnswer = await visit.ask("lint_world_files", body=LintRequest(files=dict(change)))
    except ConfigError:
        return None
    return lint


async def show_form(visit: Visit) -> Response:
    """Return a part of a YAML file as a form: an entry of its list, or a field of its mapping."""
    form = await _read_form_place(visit, visit.query.get("file", ""), visit.query.get("part", ""))
    return await _show(visit, "world_form.html", **form)


async def save_form(visit: Visit) -> Response:
    """Store the file with the values of the form. If the world would have a fault, show all faults and the values."""
    sent = await visit.form(_MOST_FIELDS)
    name, part = sent.get("file", ""), sent.get("part", "")
    place = await _read_form_place(visit, name, part)
    if place["control"] is None or place["part"] != part:
        return await _show(visit, "world_form.html", **place)
    old, control = place["value"], place["control"]
    new = ABSENT if sent.get("do") == "remove" else read_widget(control, old, "f", sent)
    whole = _put_part(place["whole"], part, new, control)
    text, is_kept = await to_thread.run_sync(edit_yaml, place["text"], whole)
    at = {"s": sent.get("s") or None, "at": sent.get("at") or None}
    try:
        read = {name: sent["read"]} if sent.get("read") else {}
        await visit.ask("put_world_files", body=WorldFilesRequest(files={name: text}, read=read))
    except (ContextEngineError, Refusal) as error:
        if isinstance(error, Refusal) and error.status != 409:
            raise
        lint = await _lint_or_none(visit, {name: text})
        fault = str(error) if lint is None or not lint.errors else None
        place |= {"widget": make_widget(control, new, "f"), "lint": lint, "fault": fault, "is_refused": True}
        return await _show(visit, "world_form.html", name=name, **place)
    left = part if new is not ABSENT and part != NEW else None
    return visit.go(_address(visit, "form", file=name, part=left, done="saved" if is_kept else "rewritten", **at))


async def _read_form_place(visit: Visit, name: str, part: str) -> dict[str, Any]:
    """Return the values of a page with the form of a part of a file."""
    file = await visit.ask("get_world_file", file_name=name)
    listed = await visit.ask("list_world_files")
    values: dict[str, Any] = {
        "file": file,
        "text": file.text,
        "part": part,
        "control": None,
        "widget": None,
        "parts": (),
    }
    values |= {"value": ABSENT, "whole": None, "fault": None, "is_editable": listed.is_editable and not file.is_shipped}
    try:
        whole = await to_thread.run_sync(load_yaml, file.text)
    except PayloadError as error:
        return {**values, "fault": str(error)}
    control = control_of(name)
    if control is None or not isinstance(whole, list if control["control"] == "list" else dict):
        return {**values, "fault": visit.t("world.no_form")}
    values["whole"], values["parts"] = whole, tuple(_parts_of_file(control, whole))
    known = [each for each, _ in values["parts"]]
    values["part"] = part = part if part in known else known[0]
    values["value"], values["control"] = _take_part(whole, part, control)
    values["widget"] = make_widget(values["control"], values["value"], "f", label=dict(values["parts"])[part])
    return values


def control_of(name: str) -> Control | None:
    """Return the control of a file of a pack. None if it has no form."""
    if not name.endswith(".yaml") or name.startswith("templates/"):
        return None
    shape = FILES.get("lore" if name.startswith("lore/") else name.removesuffix(".yaml"))
    return None if shape is None else shape.control()


def _is_simple(control: Control) -> bool:
    return control["control"] not in ("group", "list", "tree", "mapping")


def _parts_of_file(control: Control, whole: Any) -> list[tuple[str, str]]:
    """Return (name, label) of the parts of a file that have a form each."""
    if control["control"] == "list":
        return [*((str(at), name_item(each, at)) for at, each in enumerate(whole)), (NEW, "+")]
    large = [each["key"] for each in control["fields"] if not _is_simple(each)]
    return [*([("", "…")] if len(large) < len(control["fields"]) else []), *((each, each) for each in large)]


def _take_part(whole: Any, part: str, control: Control) -> tuple[Any, Control]:
    if control["control"] == "list":
        return (ABSENT if part == NEW else whole[int(part)]), control["item"]
    if part:
        return whole.get(part, ABSENT), next(each for each in control["fields"] if each["key"] == part)
    fields = [each for each in control["fields"] if _is_simple(each)]
    return {each["key"]: whole[each["key"]] for each in fields if each["key"] in whole}, {
        "control": "group",
        "fields": fields,
    }


def _put_part(whole: Any, part: str, new: Any, control: Control) -> Any:
    """Return the value of a file with another value of one part."""
    if isinstance(whole, list):
        place = len(whole) if part == NEW else int(part)
        return [*whole[:place], *([] if new is ABSENT else [new]), *whole[place + 1 :]]
    if part:
        return {key: value for key, value in {**whole, part: new}.items() if value is not ABSENT}
    asked = {each["key"] for each in control["fields"]}
    return {**{key: value for key, value in whole.items() if key not in asked or key in new}, **new}


async def show_golden(visit: Visit) -> Response:
    """Return the golden cases of a world with their verdicts."""
    fault, results = None, ()
    try:
        results = await visit.ask("run_golden_cases", body=GoldenRequest())
    except JacquardError as error:
        fault = str(error)
    return await _show(visit, "world_golden.html", results=results, fault=fault, left_out=visit.query.get("left", ""))


async def change_golden(visit: Visit) -> Response:
    """Accept the prompt of a case as it is now, or save a recorded turn as a new case. A ConfigError is shown on the page."""
    form = await visit.form()
    session_id, at = form.get("s", "").strip(), form.get("at", "").strip()
    if form.get("do") == "accept":
        await visit.ask("run_golden_cases", body=GoldenRequest(case=form.get("case", ""), accept=True))
        return visit.go(_address(visit, "golden", done="accepted", s=session_id or None, at=at or None))
    try:
        turn = await _find_turn(visit, session_id, at)
        if turn is None:
            raise ConfigError(visit.t("world.no_turn"))
        case = GoldenCaseRequest(case=form.get("case", "").strip())
        made = await visit.ask("add_golden_case", session_id=session_id, turn_id=turn.turn_id, body=case)
    except ContextEngineError as error:
        results = await visit.ask("run_golden_cases", body=GoldenRequest())
        return await _show(visit, "world_golden.html", results=results, fault=str(error), left_out="")
    left = len(made.left_out) or None
    return visit.go(_address(visit, "golden", done="added", left=left, s=session_id or None, at=at or None))


async def show_lore(visit: Visit) -> Response:
    """Return the lore of a world: a page of all entries, or the entries that a text would wake in a conversation."""
    text, session_id = visit.query.get("text", "").strip(), visit.query.get("s", "").strip()
    matches, page, fault = None, None, None
    try:
        if text and session_id:
            matches = await visit.ask("match_lore", session_id=session_id, body=MatchRequest(text=text))
    except ContextEngineError as error:
        fault = str(error)
    begin = int(sent) if (sent := visit.query.get("from", "")).isdecimal() and len(sent) < 10 else 0
    if matches is None:
        page = await visit.ask("list_lore", query=visit.query.get("words", ""), offset=begin, limit=_PAGE)
    return await _show(visit, "world_lore.html", text=text, matches=matches, page=page, fault=fault)


def _read_change(form: Mapping[str, str]) -> dict[str, str | None]:
    return {form.get("file", "").strip(): _text_of(form)}


def _text_of(form: Mapping[str, str]) -> str:
    """Return the text of a form. Browsers send line ends as CR LF."""
    return form.get("text", "").replace("\r\n", "\n")


def _sort_own_first(lint: LintAnswer, name: str) -> LintAnswer:
    own = tuple(each for each in lint.findings if each.file == name)
    return LintAnswer(
        files=lint.files, errors=lint.errors, findings=(*own, *(each for each in lint.findings if each.file != name))
    )


def _address(visit: Visit, *parts: object, **query: object) -> str:
    return link("studio", "worlds", visit.ids["world_id"], *parts, **query)


async def _show(visit: Visit, template: str, **values: Any) -> Response:
    given: dict[str, Any] = {
        "session": visit.query.get("s", ""),
        "at": visit.query.get("at", ""),
        "lint": None,
        "fault": None,
        "done": "",
    }
    given |= {"shown": None, "read": None, "is_refused": False, "has_form": False, "done": visit.query.get("done", "")}
    merged = {**given, **values}
    place = {"s": merged["session"] or None, "at": merged["at"] or None}
    if merged["session"]:
        # The navigation then has the rooms of the conversation too.
        visit = replace(visit, ids={**visit.ids, "session_id": merged["session"]})
    conversations = () if visit.is_partial else await _find_conversations(visit)
    return await visit.show(
        template,
        here=partial(_address, visit, **place),
        place=place,
        conversations=conversations,
        most_lines=_MOST_LINES,
        **merged,
    )


async def _find_conversations(visit: Visit) -> tuple[Any, ...]:
    found = await visit.ask("list_conversations", limit=100)
    return tuple(each for each in found.items if each.world_id == visit.ids.get("world_id"))


_BASE = "/studio/worlds/{world_id}"
ROOM = Room(
    name="world",
    pages={
        "GET /s/{session_id}/world": show_world_of,
        "GET /studio/worlds": show_worlds,
        f"GET {_BASE}": show_file,
        f"POST {_BASE}": save_file,
        f"POST {_BASE}/lint": lint_file,
        f"POST {_BASE}/preview": preview_file,
        f"GET {_BASE}/form": show_form,
        f"POST {_BASE}/form": save_form,
        f"GET {_BASE}/golden": show_golden,
        f"POST {_BASE}/golden": change_golden,
        f"GET {_BASE}/lore": show_lore,
    },
)
