"""Reads a selection of memories from the answer of a small model. Pure.

The answer is not trusted: only ids that were offered to the model are used. This module must not import a model, a selector or
anything that waits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from filament import escape_attribute, unescape
from jacquard.core.errors import SelectorError
from jacquard.core.model_answers import read_fence, strip_thoughts
from jacquard.core.protocols import Selection
from mnemosyne.values import dataclass

ANSWER_CHARS = 8000
WHY_CHARS = 200
_BRACKETS = 64
_MENDED_CHARS = 2000
_MENDED_QUOTES = 200
_LIST_KEYS = ("selected", "selected_ids", "ids", "selection", "items", "results")
_ID_KEYS = ("id", "entry_id")
_WHY_KEYS = ("why", "reason")
_RATIONALE_KEYS = ("rationale", "reason", "reasoning")
_SURROGATE = re.compile("[\ud800-\udfff]")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Listing:
    """List that an answer may mean: (id as written, reason) in its order; None for an item without an id."""

    items: tuple[tuple[str | None, str], ...]
    rationale: str
    repaired: bool
    prose: bool


def parse_selection(text: str, entry_ids: Sequence[str], limit: int) -> Selection:
    """Return the selection that the answer `text` contains: ids of `entry_ids`, each once, in the order of the answer.

    At most `limit` ids are returned. Example: if zz is not in `entry_ids`, `Sure! ["m3", "m1", "zz"]` gives m3 and m1,
    and `counts` of the selection contains one unknown id and one case of prose.

    The answer may be a JSON list of ids or of objects `{id, why}`, or an object that contains this list
    (`{"selected": […], "rationale": …}`, `{"ids": […]}`). Prose or a code fence around the JSON is ignored, and common faults
    are repaired (trailing commas, single quotes, a missing end). `counts` of the selection counts the corrections:
    `unknown_ids`, `duplicates`, `over_limit`, `prose`, `repaired`, `empty`.

    Raises SelectorError with the code `unreadable` if the answer has no list, or a list in which no id is known. An empty list
    is a valid selection.
    """
    known = {escape_attribute(entry_id).strip(): entry_id for entry_id in entry_ids}
    known |= {entry_id.strip(): entry_id for entry_id in entry_ids}
    listings = list(_listings(strip_thoughts(text[-ANSWER_CHARS:]).strip()))
    if not listings:
        raise SelectorError("unreadable", f"the answer contains no list of ids: {_quote_answer(text)}")
    listing = max(listings, key=lambda one: _rank_listing(one, known))
    if listing.items and not _select_known_ids(listing, known):
        raise SelectorError(
            "unreadable", f"none of the {len(listing.items)} ids in the answer is known: {_quote_answer(text)}"
        )
    return _selection(listing, known, limit)


def _selection(listing: _Listing, known: Mapping[str, str], limit: int) -> Selection:
    counts = {"prose": int(listing.prose), "repaired": int(listing.repaired), "empty": int(not listing.items)}
    counts |= {"unknown_ids": 0, "duplicates": 0, "over_limit": 0}
    chosen: dict[str, str] = {}
    for written, why in listing.items:
        entry_id = None if written is None else known.get(written)
        if entry_id is None:
            counts["unknown_ids"] += 1
        elif entry_id in chosen:
            counts["duplicates"] += 1
        elif len(chosen) >= limit:
            counts["over_limit"] += 1
        else:
            chosen[entry_id] = why
    return Selection(
        entry_ids=tuple(chosen),
        rationale=listing.rationale,
        why={entry_id: why for entry_id, why in chosen.items() if why},
        counts={name: count for name, count in counts.items() if count},
    )


def _select_known_ids(listing: _Listing, known: Mapping[str, str]) -> set[str]:
    return {known[written] for written, _ in listing.items if written is not None and written in known}


def _rank_listing(listing: _Listing, known: Mapping[str, str]) -> tuple[int, bool, bool]:
    """Return the rank of a listing: most known ids first, then an empty list, then one with reasons; the earliest wins a tie."""
    reasons = bool(listing.rationale) or any(why for _, why in listing.items)
    return len(_select_known_ids(listing, known)), not listing.items, reasons


def _listings(body: str) -> Iterator[_Listing]:
    fenced = read_fence(body)
    whole = body if fenced is None else fenced
    value = _decode(whole)
    if isinstance(value, str):
        value = _decode(value)
    if (found := _read(value, whole=True)) is not None:
        yield _Listing(items=found[0], rationale=found[1], repaired=False, prose=fenced is not None)
        return
    for value in _find_embedded_json(body):
        if (found := _read(value, whole=False)) is not None:
            yield _Listing(items=found[0], rationale=found[1], repaired=False, prose=True)
    start = min((place for place in map(body.find, "[{") if place >= 0), default=-1)
    if start < 0:
        return
    broken = body[start : max(body.rfind("]"), body.rfind("}")) + 1] or body[start:]
    if (found := _read(_mend(broken), whole=True)) is not None:
        yield _Listing(items=found[0], rationale=found[1], repaired=True, prose=len(broken) < len(body))


def _decode(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _find_embedded_json(body: str) -> Iterator[Any]:
    """Yield the outermost complete JSON lists and objects in a text, in its order."""
    place, attempts = 0, 0
    while attempts < _BRACKETS:
        starts = [start for start in (body.find("[", place), body.find("{", place)) if start >= 0]
        if not starts:
            return
        attempts += 1
        try:
            value, place = _DECODER.raw_decode(body, min(starts))
        except (ValueError, RecursionError):
            place = min(starts) + 1
        else:
            yield value


def _mend(text: str) -> Any:
    # The library's time grows faster than the text. No selection is larger than this, and a turn is waiting.
    if len(text) > _MENDED_CHARS or text.count("[") + text.count("{") > _BRACKETS:
        return None
    if text.count('"') + text.count("'") > _MENDED_QUOTES:
        return None
    import json_repair

    try:
        return json_repair.loads(text, skip_json_loads=True)
    except Exception:  # The library guesses at any text; any exception means that the text cannot be read.
        return None


def _read(value: Any, *, whole: bool) -> tuple[tuple[tuple[str | None, str], ...], str] | None:
    """Return (items, rationale) if a JSON value has the form of a selection, else None."""
    if isinstance(value, list):
        return tuple(_item(one) for one in value), ""
    if not isinstance(value, dict):
        return None
    rationale = _find_first_text(value, _RATIONALE_KEYS, ANSWER_CHARS)
    listed: Any = next((value[key] for key in _LIST_KEYS if isinstance(value.get(key), list | str)), None)
    if listed is None:
        lists = [one for one in value.values() if isinstance(one, list)]
        listed = lists[0] if len(lists) == 1 else None
    if isinstance(listed, str):
        listed = [listed]
    if listed is not None:
        return tuple(_item(one) for one in listed), rationale
    if whole and any(key in value for key in _ID_KEYS):
        return (_item(value),), ""
    return None


def _item(value: Any) -> tuple[str | None, str]:
    if isinstance(value, dict):
        written = next((value[key] for key in _ID_KEYS if key in value), None)
        return _item(written)[0] if not isinstance(written, dict) else None, _find_first_text(
            value, _WHY_KEYS, WHY_CHARS
        )
    if isinstance(value, str):
        return value.strip(), ""
    if isinstance(value, int) and not isinstance(value, bool):
        return format(value), ""
    return None, ""


def _find_first_text(value: Mapping[str, Any], keys: Sequence[str], limit_chars: int) -> str:
    text = next((value[key] for key in keys if isinstance(value.get(key), str)), "")
    return _line(unescape(text), limit_chars)


def _line(text: str, limit_chars: int) -> str:
    line = " ".join(_SURROGATE.sub("\ufffd", text).split())
    return line if len(line) <= limit_chars else line[: limit_chars - 1] + "…"


def _quote_answer(text: str) -> str:
    return repr(_line(text, 80)) if text.strip() else "it is empty"
