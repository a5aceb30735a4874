"""Checks the rules that hold between the parts of a session document (its invariants), and reports all faults at once.

The check works on the JSON of the document. A broken rule is an error if the document format demands it (a stable id, unique
blocks, refs that lead to evidence) or a store needs it (unique ids, tasks without cycles). A broken rule is a warning if the
format only recommends it (links back, keys that equal ids). Parts with a broken structure are skipped, because the reader
has reported them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from mnemosyne.core.faults import Fault, Severity, child

Items = list[tuple[str, dict[str, Any]]]


def invariant_faults(data: Mapping[str, Any]) -> tuple[Fault, ...]:
    """Return the broken invariants of a document's JSON, in the order of the document."""
    session = _object(data.get("session"))
    messages = _items(session.get("messages"), "session.messages")
    tasks = _items(
        _object(_object(session.get("task_state")).get("todo_list")).get("tasks"), "session.task_state.todo_list.tasks"
    )
    calls = _items(_object(session.get("tool_state")).get("tool_calls"), "session.tool_state.tool_calls")
    usages = _items(session.get("model_usage"), "session.model_usage")
    blocks = _items(data.get("context_blocks"), "context_blocks")
    keyed = {key: each for key, each in _object(data.get("evidences")).items() if isinstance(each, dict)}
    evidences = [(child("evidences", key), each) for key, each in keyed.items()]
    ids = {each["evidence_id"] for _, each in evidences if isinstance(each.get("evidence_id"), str)}
    return (
        *_find_repeated(messages, "message_id"),
        *_dangling_refs(messages, ids),
        *_check_summary(session, len(messages)),
        *_find_repeated(tasks, "task_id"),
        *_task_order(tasks),
        *_check_results(tasks, ids),
        *_find_repeated(calls, "tool_call_id"),
        *_check_results(calls, ids),
        *_check_named(calls, "task_id", _ids(tasks, "task_id"), "task"),
        *_find_repeated(usages, "model_usage_id"),
        *_check_named(usages, "task_id", _ids(tasks, "task_id"), "task"),
        *_check_sums(usages),
        *_check_keys(keyed),
        *_find_repeated(evidences, "evidence_id"),
        *_check_links(evidences, calls, usages),
        *_find_repeated(blocks, "block_id"),
        *_dangling_refs(blocks, ids),
    )


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any, path: str) -> Items:
    listed = value if isinstance(value, list) else []
    return [(child(path, at), each) for at, each in enumerate(listed) if isinstance(each, dict)]


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _ids(items: Items, name: str) -> set[str]:
    return {each[name] for _, each in items if isinstance(each.get(name), str)}


def _make_warning(path: str, what: str, code: str) -> Fault:
    return Fault(path=path, what=what, code=code, severity=Severity.WARNING)


def _find_repeated(items: Items, name: str) -> Iterator[Fault]:
    counts = Counter(each[name] for _, each in items if isinstance(each.get(name), str) and each[name])
    seen: set[str] = set()
    for path, each in items:
        value = each.get(name)
        if isinstance(value, str) and counts[value] > 1:
            if value in seen:
                what = f"{value!r} is used twice; give each an id of its own"
                yield Fault(path=child(path, name), what=what, code="duplicate")
            seen.add(value)


def _dangling_refs(items: Items, ids: set[str]) -> Iterator[Fault]:
    for path, each in items:
        for at, ref in _items(each.get("refs"), child(path, "refs")):
            value = ref.get("evidence_id")
            if isinstance(value, str) and value not in ids and ref.get("remote") is not True:
                what = f"no evidence has the id {value!r}; add it to evidences, or mark the ref with remote: true"
                yield Fault(path=child(at, "evidence_id"), what=what, code="dangling")


def _check_summary(session: Mapping[str, Any], count: int) -> Iterator[Fault]:
    span = _object(_object(session.get("summary")).get("message_index_range"))
    low, high = span.get("from"), span.get("to")
    if not (isinstance(low, int) and isinstance(high, int)):
        return
    path = "session.summary.message_index_range"
    if low > high:
        yield Fault(path=path, what=f"runs from {low} back to {high}; swap the two numbers", code="range")
    elif high > count:
        yield _make_warning(path, f"ends at message {high}, but there are {count} (counted from 1)", "range")
    elif low == 0 and high:
        yield _make_warning(path, "begins at 0; messages are counted from 1, and 0..0 is none", "range")


def _task_order(tasks: Items) -> Iterator[Fault]:
    known = _ids(tasks, "task_id")
    needs: dict[str, list[str]] = {}
    for path, each in tasks:
        for at, needed in enumerate(_texts(each.get("depends_on"))):
            if needed not in known:
                where = child(child(path, "depends_on"), at)
                yield _make_warning(where, f"there is no task {needed!r}", "dangling")
        if isinstance(each.get("task_id"), str):
            needs.setdefault(each["task_id"], []).extend(_texts(each.get("depends_on")))
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        ring = " -> ".join(reversed(error.args[1]))
        what = f"tasks wait for each other: {ring}; remove one of these from depends_on"
        yield Fault(path="session.task_state.todo_list.tasks", what=what, code="cycle")


def _check_results(items: Items, ids: set[str]) -> Iterator[Fault]:
    for path, each in items:
        for at, value in enumerate(_texts(each.get("result_evidence_ids"))):
            if value not in ids:
                where = child(child(path, "result_evidence_ids"), at)
                yield _make_warning(where, f"no evidence has the id {value!r}", "dangling")


def _check_named(items: Items, name: str, known: set[str], what: str) -> Iterator[Fault]:
    for path, each in items:
        value = each.get(name)
        if isinstance(value, str) and value and value not in known:
            yield _make_warning(child(path, name), f"there is no {what} {value!r}", "dangling")


def _check_sums(usages: Items) -> Iterator[Fault]:
    for path, each in usages:
        parts = [each.get(name, 0) for name in ("total_tokens", "prompt_tokens", "completion_tokens")]
        if all(isinstance(part, int) and not isinstance(part, bool) for part in parts):
            total, prompt, completion = parts
            if total and total < prompt + completion:
                what = f"is {total}, less than the sum of {prompt} and {completion} tokens"
                yield _make_warning(child(path, "total_tokens"), what, "sum")


def _check_keys(evidences: Mapping[str, dict[str, Any]]) -> Iterator[Fault]:
    for key, each in evidences.items():
        value = each.get("evidence_id")
        if isinstance(value, str) and value != key:
            what = f"{value!r} is stored under the key {key!r}; use one id for both, because refs use evidence_id"
            yield _make_warning(child(child("evidences", key), "evidence_id"), what, "key")


def _check_links(evidences: Items, calls: Items, usages: Items) -> Iterator[Fault]:
    known_calls, known_usages = _ids(calls, "tool_call_id"), _ids(usages, "model_usage_id")
    makers = {
        result: each["tool_call_id"]
        for _, each in calls
        if isinstance(each.get("tool_call_id"), str)
        for result in _texts(each.get("result_evidence_ids"))
    }
    for path, each in evidences:
        links = _object(each.get("links"))
        where = child(path, "links")
        at = [(where, links)]
        yield from _check_named(at, "tool_call_id", known_calls, "tool call")
        yield from _check_named(at, "model_usage_id", known_usages, "model usage")
        maker = makers.get(str(each.get("evidence_id")))
        if maker is not None and not links.get("tool_call_id"):
            yield _make_warning(
                where, f"tool call {maker!r} names it as its result; link back with tool_call_id", "unlinked"
            )
        if each.get("type") == "llm_output" and usages and not links.get("model_usage_id"):
            yield _make_warning(where, "a model wrote it; link back to the call with model_usage_id", "unlinked")
