"""Makes forms from the tables of a format, and reads the values that a form sends back.

A `control` is the description that a shape gives of its form (`Shape.control`). A value that does not fit its control, such as a
text where a list belongs, is shown as YAML, so that nothing of a file is lost in its form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from filament import PayloadError, dump_yaml, load_yaml
from mnemosyne.values import dataclass

ABSENT: Final = object()
"""Result of a field that the file should not have."""
MORE, REMOVE, META = "-more", "-remove", "$meta"
_LONG_CHARS = 70

Control = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Widget:
    """One field of a form, or a group of fields.

    `kind` is text, long, number, checkbox, select, checkboxes, lines (a list, one text a line), yaml, group, or items (groups of
    which more can be added).
    """

    kind: str
    name: str
    label: str
    value: str = ""
    choices: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    help: tuple[str, ...] = ()
    """Sentences about the field, in English."""
    required: bool = False
    parts: tuple[Widget, ...] = ()
    least: float | None = None
    most: float | None = None
    step: str = "any"
    is_new: bool = False


def make_widget(control: Control, value: Any, name: str, *, label: str = "", is_new: bool = False) -> Widget:
    """Return the widget of a value. `value` is ABSENT if the file has none."""
    kind = _kind_of(control, value)
    shown = control.get("default") if value is ABSENT or value is None else value
    label = label or str(control.get("key", ""))
    sentences = tuple(each for each in (control.get("help", ""), control.get("hint", "")) if each)
    parts: tuple[Widget, ...] = ()
    chosen: tuple[str, ...] = ()
    text = ""
    if kind == "group":
        parts = tuple(_parts_of(control, value, name))
    elif kind == "items":
        items = value if isinstance(value, list) else []
        made = [
            make_widget(control["item"], each, f"{name}/{at}", label=name_item(each, at))
            for at, each in enumerate(items)
        ]
        parts = (*made, make_widget(control["item"], ABSENT, f"{name}/{len(items)}", is_new=True))
    elif kind == "checkboxes":
        chosen = tuple(shown or ())
    elif kind == "checkbox":
        chosen = ("on",) if shown else ()
    elif kind == "lines":
        text = "\n".join(value) if isinstance(value, list) else ""
    elif kind == "yaml":
        text = "" if value is ABSENT else dump_yaml(value)
    elif kind == "select":
        chosen = () if shown is None else (str(shown),)
    else:
        text = "" if value is ABSENT or value is None else str(value)
        kind = "long" if kind == "text" and ("\n" in text or len(text) > _LONG_CHARS) else kind
    return Widget(
        kind=kind,
        name=name,
        label=label,
        value=text,
        choices=tuple(control.get("choices", ())),
        chosen=chosen,
        help=sentences,
        required=bool(control.get("required")) and not is_new,
        parts=parts,
        least=control.get("minimum"),
        most=control.get("maximum"),
        step=str(control.get("step", "any")),
        is_new=is_new,
    )


def read_widget(control: Control, value: Any, name: str, form: Mapping[str, str]) -> Any:
    """Return the value that a form sends for a widget that was made from `control` and `value`. Return ABSENT if there is none."""
    kind = _kind_of(control, value)
    sent = form.get(name, "").replace("\r\n", "\n")
    if kind == "group":
        return _read_group(control, value, name, form)
    if kind == "items":
        items = value if isinstance(value, list) else []
        sent_items = [
            read_widget(control["item"], each, f"{name}/{at}", form)
            for at, each in enumerate([*items, ABSENT])
            if f"{name}/{at}/{REMOVE}" not in form
        ]
        return _list_or_absent([each for each in sent_items if each is not ABSENT], value)
    if kind == "checkboxes":
        return _list_or_absent([each for each in control["choices"] if f"{name}/{each}" in form], value)
    if kind == "lines":
        return _list_or_absent([line.strip() for line in sent.split("\n") if line.strip()], value)
    if kind == "checkbox":
        return _keep_absent(name in form, control, value)
    if not sent.strip():
        return "" if value == "" else None if value is None else ABSENT
    return _read_scalar(kind, sent, control, value)


def _read_scalar(kind: str, sent: str, control: Control, value: Any) -> Any:
    if kind == "yaml":
        try:
            return load_yaml(sent)
        except PayloadError:
            # The check of the file names the fault.
            return sent
    if kind == "number":
        try:
            number: Any = json.loads(sent)
        except ValueError:
            return sent
        return _keep_absent(number, control, value) if isinstance(number, int | float) else sent
    return _keep_absent(sent, control, value) if kind == "select" else sent


def _kind_of(control: Control, value: Any) -> str:
    """Return the kind of the widget of a value; `yaml` if the value does not fit the control."""
    is_absent = value is ABSENT or value is None
    match control["control"]:
        case "group":
            return "group" if is_absent or isinstance(value, dict) else "yaml"
        case "tree":
            return "group" if isinstance(value, dict) and value else "yaml"
        case "list" if control["item"]["control"] == "group":
            fits = is_absent or (isinstance(value, list) and all(isinstance(each, dict) for each in value))
            return "items" if fits else "yaml"
        case "list" if control["item"]["control"] == "text":
            fits = is_absent or (isinstance(value, list) and all(_is_line(each) for each in value))
            return "lines" if fits else "yaml"
        case "checkboxes":
            fits = is_absent or (isinstance(value, list) and all(each in control["choices"] for each in value))
            return "checkboxes" if fits else "yaml"
        case "checkbox":
            return "checkbox" if is_absent or isinstance(value, bool) else "yaml"
        case "select":
            return "select" if is_absent or value in control["choices"] else "yaml"
        case "number":
            return "number" if is_absent or (isinstance(value, int | float) and not isinstance(value, bool)) else "yaml"
        case "text":
            return "text" if is_absent or isinstance(value, str) else "yaml"
    return "yaml"


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and value == value.strip() and "\n" not in value


def _controls_of(control: Control, value: Any) -> list[tuple[str, Control]]:
    """Return the controls of the fields of a group. Those of a tree follow from its values; `$meta` has a table."""
    if control["control"] == "group":
        known = [(each["key"], each) for each in control["fields"]]
        names = {key for key, _ in known}
        own = value if isinstance(value, dict) else {}
        return [*known, *((key, {"control": "json"}) for key in own if key not in names)]
    rules: Control = control.get("rules") or {"control": "json"}
    return [(key, rules if key == META else _control_in_tree(control, each)) for key, each in value.items()]


def _control_in_tree(control: Control, value: Any) -> Control:
    if isinstance(value, dict):
        return {"control": "tree", "rules": control.get("rules")}
    kind = {bool: "checkbox", int: "number", float: "number", str: "text"}.get(type(value), "json")
    return {"control": kind}


def _parts_of(control: Control, value: Any, name: str) -> list[Widget]:
    own = value if isinstance(value, dict) else {}
    parts = [
        make_widget(each, own.get(key, ABSENT), f"{name}/{quote(key, safe='')}", label=key)
        for key, each in _controls_of(control, value)
    ]
    if control["control"] == "tree":
        parts.append(Widget(kind="yaml", name=f"{name}/{MORE}", label=MORE, is_new=True))
    return parts


def _read_group(control: Control, value: Any, name: str, form: Mapping[str, str]) -> Any:
    own = value if isinstance(value, dict) else {}
    made: dict[str, Any] = {}
    for key, each in _controls_of(control, value):
        got = read_widget(each, own.get(key, ABSENT), f"{name}/{quote(key, safe='')}", form)
        if got is not ABSENT:
            made[key] = got
    if control["control"] == "tree" and (sent := form.get(f"{name}/{MORE}", "").strip()):
        try:
            more = load_yaml(sent)
        except PayloadError:
            more = sent
        made |= more if isinstance(more, dict) else {"?": sent}
    return made if made or isinstance(value, dict) else ABSENT


def _list_or_absent(made: list[Any], value: Any) -> Any:
    return made if made or isinstance(value, list) else ABSENT


def _keep_absent(made: Any, control: Control, value: Any) -> Any:
    """Return ABSENT if a file leaves out a key, and the form has its default."""
    is_default = made == control.get("default") or (made is False and control.get("default") is None)
    return ABSENT if value is ABSENT and is_default else made


def name_item(value: Any, at: int) -> str:
    """Return how a list entry is called in a list for people: its id and title, or else its number from 1."""
    named = [str(value[key]) for key in ("id", "title", "name") if isinstance(value, dict) and key in value]
    return " · ".join(named[:2]) or str(at + 1)
