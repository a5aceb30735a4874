"""The examples of the session document's specification in full, and strategies for documents and their JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from mnemosyne import Ref, SessionDocument
from mnemosyne.documents.shapes import JsonTree, OpenChoice, Time, record_of
from mnemosyne.shapes import Field, Flag, KeyedValues, Many, Number, Record, Shape, Text

STRUCTURE = frozenset({"missing", "kind", "value", "empty", "plain", "version"})
"""Codes of the faults that a JSON Schema finds too (except `plain`: infinite numbers, text that UTF-8 cannot write)."""

FOLDER = Path(__file__).parent / "session_documents"
"""Two whole session documents, character by character."""

EXAMPLES = {name: json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")) for name in ("full", "smallest")}


def smallest() -> dict[str, Any]:
    """Return a document without any fault or warning, to be broken."""
    return {
        "schema_version": "1.0",
        "session": {
            "session_id": "s1",
            "messages": [{"role": "user", "content": "Where is the key?", "at": "2026-01-20T10:00:00Z"}],
            "task_state": {"todo_list": {"tasks": []}},
        },
        "evidences": {},
        "context_blocks": [],
    }


texts = st.text(max_size=6)
leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
trees = st.recursive(
    leaves | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
unknown = st.dictionaries(st.sampled_from(["x_a", "x-b", "注", "extra", "x c"]), trees, max_size=2)
zones = st.sampled_from([UTC, timezone(timedelta(hours=8)), timezone(timedelta(hours=-3, minutes=-30))])
times = st.datetimes(min_value=datetime(1000, 1, 1), max_value=datetime(9000, 1, 1), timezones=zones)


def values(shape: Shape) -> st.SearchStrategy[Any]:
    """Return values of one shape."""
    match shape:
        case Text():
            return st.text(min_size=int(shape.filled), max_size=6)
        case Number(whole=True):
            return st.integers(0, 2**40)
        case Number():
            return st.floats(shape.low, shape.high, allow_nan=False, allow_infinity=False)
        case Flag():
            return st.booleans()
        case Time():
            return times
        case JsonTree():
            return trees
        case OpenChoice():
            return st.sampled_from(list(shape.of))
        case Record():
            return objects(shape.of)
        case Many():
            return st.lists(values(shape.item), min_size=shape.least, max_size=3).map(tuple)
        case KeyedValues():
            return st.dictionaries(texts, values(shape.item), max_size=2)
    raise TypeError(shape)


def field_values(each: Field) -> st.SearchStrategy[Any]:
    """Return values of one field."""
    made = values(each.shape)
    return st.none() | made if each.takes_null and not isinstance(each.shape, Many) else made


def objects(cls: type) -> st.SearchStrategy[Any]:
    """Return values of a type of the schema, with unknown fields where it is open."""
    table = record_of(cls)
    parts = {each.attribute: field_values(each) for each in table.fields}
    return st.builds(cls, **parts, **({"extra": unknown} if table.is_open else {}))


def sound(doc: SessionDocument) -> SessionDocument:
    """Return the document with ids and references such that no invariant is broken."""
    evidences = {f"e{n}": replace(each, evidence_id=f"e{n}") for n, each in enumerate(doc.evidences.values())}

    def refs(held: tuple[Ref, ...]) -> tuple[Ref, ...]:
        here = next(iter(evidences), None)
        return tuple(replace(ref, remote=True) if here is None else replace(ref, evidence_id=here) for ref in held)

    session = doc.session
    tasks = tuple(replace(e, task_id=f"t{n}", depends_on=()) for n, e in enumerate(session.task_state.todo_list.tasks))
    summary = session.summary
    if summary is not None and summary.message_index_range is not None:
        span = replace(summary.message_index_range, from_index=1, to_index=1)
        summary = replace(summary, message_index_range=span)
    tool_state, usages = session.tool_state, session.model_usage
    if tool_state is not None:
        calls = tuple(replace(each, tool_call_id=f"c{n}") for n, each in enumerate(tool_state.tool_calls))
        tool_state = replace(tool_state, tool_calls=calls)
    if usages is not None:
        usages = tuple(replace(each, model_usage_id=f"u{n}") for n, each in enumerate(usages))
    session = replace(
        session,
        messages=tuple(
            replace(e, message_id=e.message_id and f"m{n}", refs=refs(e.refs)) for n, e in enumerate(session.messages)
        ),
        summary=summary,
        task_state=replace(session.task_state, todo_list=replace(session.task_state.todo_list, tasks=tasks)),
        tool_state=tool_state,
        model_usage=usages,
    )
    blocks = tuple(replace(e, block_id=f"b{n}", refs=refs(e.refs)) for n, e in enumerate(doc.context_blocks))
    return replace(doc, schema_version="1.0", session=session, evidences=evidences, context_blocks=blocks)


documents = objects(SessionDocument).map(sound)


def raw_values(shape: Shape) -> st.SearchStrategy[Any]:
    """Return JSON of one shape, in any spelling that is no error."""
    match shape:
        case OpenChoice():
            words = shape.words
            return st.sampled_from([*words, *shape.aliases, "|".join(words), f"{words[-1]}|{words[0]}"])
        case Time():
            stamps = [
                "2026-01-20T10:00:00Z",
                "2026-01-20T10:00:00+00:00",
                "20260120T100000+0800",
                "2026-01-20",
                "…",
                "",
            ]
            return st.sampled_from(stamps) | times.map(datetime.isoformat)
        case Record():
            return raw_objects(shape.of)
        case Many():
            return st.lists(raw_values(shape.item), min_size=shape.least, max_size=3)
        case KeyedValues():
            return st.dictionaries(texts, raw_values(shape.item), max_size=2)
        case Number(whole=True):
            return st.integers(0, 2**40) | st.integers(0, 9).map(float)
        case Number():
            return st.sampled_from([0, 1]) | st.floats(shape.low, shape.high, allow_nan=False, allow_infinity=False)
    return values(shape)


def raw_field_values(each: Field) -> st.SearchStrategy[Any]:
    """Return JSON of one field."""
    made = raw_values(each.shape)
    return st.none() | made if each.takes_null else made


def raw_objects(cls: type) -> st.SearchStrategy[dict[str, Any]]:
    """Return the JSON of a type: what is required, any of the rest, and unknown fields."""
    table = record_of(cls)
    required = {each.name: raw_field_values(each) for each in table.fields if each.required}
    optional = {each.name: raw_field_values(each) for each in table.fields if not each.required}
    known = st.fixed_dictionaries(required, optional=optional)
    return st.tuples(unknown, known).map(lambda both: {**both[0], **both[1]})


def sound_raw(data: dict[str, Any]) -> dict[str, Any]:
    """Return a document's JSON with ids and references such that no invariant is broken."""
    session = data["session"]
    data["schema_version"] = "1.0"
    data["evidences"] = {f"e{n}": {**e, "evidence_id": f"e{n}"} for n, e in enumerate(data["evidences"].values())}
    here = next(iter(data["evidences"]), None)
    for holder in [*session["messages"], *data["context_blocks"]]:
        for ref in holder.get("refs") or []:
            ref.update({"remote": True} if here is None else {"evidence_id": here})
    numbered = [
        (session["messages"], "message_id"),
        (session["task_state"]["todo_list"]["tasks"], "task_id"),
        ((session.get("tool_state") or {}).get("tool_calls") or [], "tool_call_id"),
        (session.get("model_usage") or [], "model_usage_id"),
        (data["context_blocks"], "block_id"),
    ]
    for listed, name in numbered:
        for place, each in enumerate(listed):
            if each.get(name):
                each[name] = f"n{place}"
            if "depends_on" in each:
                each["depends_on"] = []
    span = (session.get("summary") or {}).get("message_index_range")
    if span:
        span.update({"from": 1, "to": 1})
    return data


raw_documents = raw_objects(SessionDocument).map(sound_raw)


def pdf_of(text):
    """Return a PDF of one page with one line."""
    shown = f"BT /F1 18 Tf 20 100 Td ({text}) Tj ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 144] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(shown)} >>\nstream\n{shown}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, places = "%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{each}\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    return (
        f"{out}xref\n0 6\n0000000000 65535 f \n{table}trailer << /Size 6 /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF"
    )
