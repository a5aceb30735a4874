"""Shows the room Try: the prompt of a new input under other settings, next to the prompt of today's settings. Nothing is written
until the prompt is sent to the model server.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from anyio import to_thread
from starlette.responses import Response

from filament import dump_yaml, load_yaml
from filament.errors import PayloadError
from jacquard.authoring.replay.model_calls import describe_call
from jacquard.authoring.replay.turn_diff import compare_turns
from jacquard.authoring.replay.turn_view import GROUPS, view_turn
from jacquard.config.extension_points import SELECTORS
from jacquard.core.errors import ConfigError
from jacquard.pipeline.record.prepared_turn import PreparedTurn
from jacquard.remote.bodies import AgainRequest, AnswerRequest, TurnRequest, WhatIfRequest, WorldFilesRequest
from jacquard.service.answers import Refusal
from jacquard.service.http.handlers.turns import prepare
from jacquard.service.values import Scope
from jacquard.studio.visit import Room, Visit, link
from jacquard.templating.files import find_shipped_templates, template_ids
from jacquard.templating.layouts import find_layout_ids
from jacquard.templating.profiles import AUTO
from mnemosyne.core.errors import ContextEngineError

CHOICES, NUMBERS, WORDS = (
    ("layout", "template_id", "selector.name"),
    (
        "budget.max_input_tokens",
        "curation.relevance_floor",
        "curation.relevance_floor_past",
        "curation.select_limit",
        "curation.fallback_limit",
    ),
    ("viewer",),
)
"""Settings that have fields of their own: those with known values, numbers, and words. `more` takes all others as YAML."""

_FIELDS = ("message", "turn", "model", "more", "file", "text", *CHOICES, *NUMBERS, *WORDS)
_TURNS, _MOST_ADDRESS = 6, 4_000
_TEMPLATES = "templates/"


async def show_trial(visit: Visit) -> Response:
    """Return the page, or only the newest turns. If the address has an input or names a turn, the page shows its prompt too."""
    turns = await visit.ask("list_turns", limit=_TURNS)
    newest = turns.items[-1] if turns.items else None
    shown = {"turns": turns, "newest": newest, "is_live": visit.principal.allows(Scope.AUTHOR)}
    if visit.is_partial:
        return await visit.show("_trial_turns.html", **shown)
    asked = {name: visit.query.get(name, "") for name in _FIELDS}
    own, shipped = await _find_files(visit)
    made = await _try(visit, asked) if asked["message"].strip() or asked["turn"] else {}
    return await visit.show(
        "trial.html",
        asked=asked,
        choices=await to_thread.run_sync(_list_choices, own),
        files=sorted({*own, *shipped}),
        numbers=NUMBERS,
        lists_models=visit.principal.allows(Scope.ADMIN),
        made=made,
        **shown,
        **made,
    )


async def show_prompt(visit: Visit) -> Response:
    """Return the prompt of an input under the settings of the form, a part of the page."""
    form = await visit.form()
    asked = {name: form.get(name, "").replace("\r\n", "\n") for name in _FIELDS}
    answer = await visit.show("_trial.html", asked=asked, **await _try(visit, asked))
    # An address leads to the stored text of a file: an unsaved one may be long.
    address = link(
        "s",
        visit.ids["session_id"],
        "try",
        **{name: text or None for name, text in asked.items() if name not in ("file", "text")},
    )
    if len(address) <= _MOST_ADDRESS:
        answer.headers["hx-replace-url"] = address
    return answer


async def show_models(visit: Visit) -> Response:
    """Return the field for the model, with the names of the models of the model server."""
    return await visit.show(
        "_trial_models.html", upstream=await visit.ask("get_upstream"), chosen=visit.query.get("model", "")
    )


async def show_file(visit: Visit) -> Response:
    """Return the field with the text of a file of the session's world, or of a shipped template."""
    name = visit.query.get("file", "").strip()
    if not name:
        return Response()
    head = await visit.ask("get_session_head")
    found = await visit.ask("get_world_file", world_id=head.world_id, file_name=name)
    return await visit.show("_trial_file.html", text=found.text, name=found.name)


async def store_file(visit: Visit) -> Response:
    """Store the text of a file in the session's world. Its sessions continue with it."""
    form = await visit.form()
    head = await visit.ask("get_session_head")
    body = WorldFilesRequest(files=read_files(form))
    await visit.ask("put_world_files", world_id=head.world_id, body=body)
    return await visit.show(
        "_trial_file.html", text=form.get("text", "").replace("\r\n", "\n"), name=form["file"], stored=True
    )


def read_files(form: Mapping[str, str]) -> dict[str, str | None]:
    """Return the unsaved text of a form by the name of its file; nothing if the form has no text."""
    name, text = form.get("file", "").strip(), form.get("text", "").replace("\r\n", "\n")
    return {name: text} if name and text else {}


async def send(visit: Visit) -> Response:
    """Prepare a turn, or the newest input once more (`again`), and stream the reply of the model server."""
    form = await visit.form()
    config = read_config(form) or None
    turn: PreparedTurn | Any
    if again := form.get("again"):
        turn = await visit.ask("swipe", body=AgainRequest(turn_id=again, config=config))
    else:
        turn = await visit.ask(
            "prepare_turn", body=TurnRequest(message=_read_message(form), config=config), run=prepare
        )
    if turn.reply is not None:
        # The engine answers some inputs by itself.
        return Response(status_code=204)
    edited = [form[name].replace("\r\n", "\n") for name in _list_edits(form)]
    body = AnswerRequest(model=form.get("model", "").strip(), texts=tuple(edited) or None)
    answer: Response = await visit.ask("answer_turn", turn_id=turn.turn_id, body=body)
    return answer


def _list_edits(form: Mapping[str, str]) -> list[str]:
    """Return the names of the fields with the edited messages, in the order of the messages."""
    names = (f"edit.{number}" for number in range(len(form)))
    return [name for name in names if name in form]


def _read_message(form: Mapping[str, str]) -> str:
    message = form.get("message", "").replace("\r\n", "\n").strip()
    if not message:
        raise ConfigError("The input is empty.")
    return message


def read_config(form: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a form, nested like the settings file. Raises ConfigError if one cannot be read."""
    try:
        more = load_yaml(form.get("more", "")) or {}
    except PayloadError as error:
        raise ConfigError(f"Further settings: {error}") from None
    if not isinstance(more, dict):
        raise ConfigError("Further settings: write them as in the settings file, `name: value` on each line.")
    config = json.loads(json.dumps(more, default=str))
    for name in (*CHOICES, *NUMBERS, *WORDS):
        if text := form.get(name, "").strip():
            *sections, last = name.split(".")
            place = config
            for each in sections:
                place = place.setdefault(each, {})
                if not isinstance(place, dict):
                    raise ConfigError(f"Further settings: {each} is a section; write its settings below it.")
            place[last] = _read_number(name, text) if name in NUMBERS else text
    return dict(config)


def _read_number(name: str, text: str) -> int | float:
    try:
        return int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        raise ConfigError(f"{name} is {text[:40]!r}; give a number.") from None


async def _try(visit: Visit, asked: Mapping[str, str]) -> dict[str, Any]:
    """Return what the page shows of an input under other settings, or of a recorded turn."""
    config = read_config(asked)
    made: dict[str, Any] = {"config": config, "told": None, "origins": {}}
    if config:
        made["origins"] = await _find_origins(visit, config)
        made["lines"] = dump_yaml(config)
    if asked["turn"]:
        body = WhatIfRequest(config=config)
        return made | {"told": await visit.ask("what_if", turn_id=asked["turn"], body=body)}
    turn = await _prepare(visit, asked, config)
    shown = view_turn(turn)
    made |= {"turn": turn, "shown": shown, "groups": GROUPS, "describe_call": describe_call, "now": None}
    if config or read_files(asked):
        now = view_turn(await _prepare(visit, {**asked, "text": ""}, None))
        made |= {"now": now, "diff": await to_thread.run_sync(compare_turns, now, shown)}
    return made


async def _prepare(visit: Visit, asked: Mapping[str, str], config: dict[str, Any] | None) -> PreparedTurn:
    body = TurnRequest(message=_read_message(asked), config=config or None, dry_run=True, files=read_files(asked))
    turn: PreparedTurn = await visit.ask("prepare_turn", body=body, run=prepare)
    return turn


async def _find_origins(visit: Visit, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings in force that `config` changes, by name; nothing if the caller may not see them."""
    try:
        known = await visit.ask("list_settings")
    except (Refusal, ContextEngineError):
        return {}
    return {each.name: each for each in known if _holds(config, each.name.split("."))}


def _holds(config: Mapping[str, Any], path: list[str]) -> bool:
    value = config.get(path[0])
    return path[0] in config and (len(path) == 1 or (isinstance(value, Mapping) and _holds(value, path[1:])))


async def _find_files(visit: Visit) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the templates of the session's world and of the shipped ones; none if the caller may not read them."""
    if not visit.principal.allows(Scope.AUTHOR):
        return (), ()
    try:
        head = await visit.ask("get_session_head")
        files = await visit.ask("list_world_files", world_id=head.world_id)
    except (Refusal, ContextEngineError):
        # The world is gone, or it is not readable: its own templates are not offered.
        return (), ()
    return tuple(name for name in files.files if name.startswith(_TEMPLATES)), files.shipped


def _list_choices(files: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    """Return the values that the page offers for settings: the shipped ones, and those of the templates `files` of a world."""
    shipped = find_shipped_templates()
    own = [name.removeprefix(_TEMPLATES) for name in files]
    names = [path.relative_to(shipped).as_posix() for path in shipped.glob("*/*")]
    layouts = {name.split("/")[1].removesuffix(".yaml") for name in own if name.startswith("layouts/")}
    return {
        "layout": (AUTO, *sorted({*find_layout_ids((shipped,)), *layouts})),
        "template_id": template_ids([*names, *own]),
        "selector.name": SELECTORS.built_in,
    }


_HERE = "/s/{session_id}/try"
ROOM = Room(
    name="trial",
    pages={
        f"GET {_HERE}": show_trial,
        f"POST {_HERE}": show_prompt,
        f"GET {_HERE}/models": show_models,
        f"GET {_HERE}/file": show_file,
        f"POST {_HERE}/file": store_file,
        f"POST {_HERE}/send": send,
    },
)
