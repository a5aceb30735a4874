"""Every operation, proxy route and MCP tool, by every kind of caller: who gets in, with which ids, and what comes out.

The rows are in `doors.py`. An operation, a route or a tool without a row fails here.
"""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
from doors import (
    ASKED,
    CALLERS,
    CHAT,
    KNOWN,
    LORE,
    OWN_ROUTES,
    PROXY_ROUTES,
    RESERVED,
    ROWS,
    WORLD,
    fill,
    open_doors,
    tool_arguments,
)

from jacquard.config.reference import settings_of
from jacquard.config.service import ServiceSettings
from jacquard.remote.operations import BY_NAME, OPERATIONS
from jacquard.service.http.call_settings import OPEN_OPTIONS
from jacquard.service.ids import MOST_BYTES, MOST_CHARS
from jacquard.service.mcp.resources import RESOURCES
from jacquard.service.mcp.tools import TOOLS
from jacquard.service.running.application import build_app
from jacquard.testing.server import ScriptedServer
from mnemosyne import IngestOptions

pytestmark = pytest.mark.anyio
CALLS = [each for each in OPERATIONS if each.name != "stream_events"]
"""Operations whose answers end."""

SECRET_KEY = "The key is sk-proj-4fGh7Kq2Lm9Np3Rs5Tv8Wx1Yz6Bc0De2Fg"
WRONG_IDS = {"too long": "x" * (MOST_BYTES + 1), "control": "a\nb", "bidi": "a\u202eb", "blank": "  "}


@pytest.fixture
def upstream():
    with ScriptedServer("text:Noted.") as server:
        yield server


def leaks(text, caller):
    """The secrets in a text that a caller must not read."""
    return [each for each in caller.hidden if each in text]


def test_every_operation_route_and_tool_has_a_row(tmp_path):
    assert {each.name for each in OPERATIONS} == set(ROWS)
    app = build_app(ServiceSettings(store=str(tmp_path), embedder="none", tenants=True))
    others = {each.path for each in app.routes} - {each.path for each in OPERATIONS}
    assert others == OWN_ROUTES | {path for _, path in PROXY_ROUTES}
    assert set(TOOLS) <= set(ROWS)
    assert {each.operation.name for each in RESOURCES} <= set(ROWS)


async def test_each_row_is_a_call_that_works(tmp_path, upstream):
    async with open_doors(tmp_path, upstream) as doors:
        read, faults = await doors.prepare_session("s", player="play"), []
        for each in CALLS:
            row, ids = ROWS[each.name], read
            if each.method != "GET":
                ids = await doors.prepare_session(f"s-{each.name}", player="play", waits=row.waits)
            answer = await doors.call("admin", each, ids)
            code = answer.json()["error"]["code"] if answer.status_code >= 300 else ""
            if code != row.code or str(tmp_path) in answer.text or str(WORLD) in answer.text:
                faults.append((each.name, answer.status_code, answer.text[:300]))
        assert not faults


@pytest.mark.parametrize("caller", CALLERS, ids=lambda each: each.name)
async def test_each_caller_gets_in_where_token_scope_and_viewer_allow_it_and_reads_no_secret(
    tmp_path, upstream, caller
):
    async with open_doors(tmp_path, upstream) as doors:
        ids = await doors.prepare_session("s", waits=True)
        faults = []
        for each in OPERATIONS:
            allowed = caller.may_call(each)
            if allowed and (each not in CALLS or (each.name == "put_document" and caller.tenant != "north")):
                # A stream has no end, and the document holds what it must not read.
                continue
            answer = await doors.call(caller.name, each, ids)
            if caller.scope is None:
                wanted = answer.status_code == 401
            elif allowed:
                wanted = answer.status_code not in (401, 403) and answer.status_code < 500
            else:
                wanted = answer.status_code == 403 and answer.json()["error"]["code"] in ("forbidden", "viewer_bound")
            told = leaks(answer.text, caller)
            if not wanted or told:
                faults.append((each.name, answer.status_code, told, answer.text[:200]))
        assert not faults


@pytest.mark.parametrize("caller", CALLERS, ids=lambda each: each.name)
async def test_each_tool_opens_to_the_callers_of_its_operation_and_tells_no_secret(tmp_path, upstream, caller):
    async with open_doors(tmp_path, upstream) as doors:
        ids = await doors.prepare_session("s", waits=True)
        faults = []
        for name, tool in TOOLS.items():
            answer = await doors.ask(caller.name, "tools/call", {"name": name, "arguments": tool_arguments(name, ids)})
            if caller.scope is None:
                wanted = answer.status_code == 401
            else:
                said = answer.json()["result"]
                refused = said.get("isError") and ("needs a token" in answer.text or "bound to a viewer" in answer.text)
                wanted = bool(refused) is not caller.may_call(tool.operation)
            told = leaks(answer.text, caller)
            if not wanted or told:
                faults.append((name, answer.status_code, told, answer.text[:200]))
        assert not faults


@pytest.mark.parametrize("caller", CALLERS, ids=lambda each: each.name)
async def test_each_route_of_the_proxy_opens_to_tokens_alone_and_tells_no_secret(tmp_path, upstream, caller):
    async with open_doors(tmp_path, upstream) as doors:
        await doors.prepare_session("s")
        faults = []
        for (method, path), body in PROXY_ROUTES.items():
            seen = len(upstream.requests)
            named = {"x-jacquard-session": "s"}
            answer = await doors.send(caller.name, method, path.replace("{model:path}", "m"), body, named)
            requests = upstream.requests[seen:]
            told = leaks(answer.text + str([each.body for each in requests]), caller)
            known = caller.scope is not None
            if (answer.status_code == 401) is known or (method == "POST" and bool(requests) is not known) or told:
                faults.append((path, answer.status_code, told))
            assert not any("jq_" in str(each.headers) for each in requests)
        assert not faults


@pytest.mark.parametrize("caller", KNOWN, ids=lambda each: each.name)
async def test_a_session_reserved_for_a_users_facts_is_no_ones_to_name(tmp_path, upstream, caller):
    async with open_doors(tmp_path, upstream) as doors:
        ids = await doors.prepare_session("s", waits=True)
        faults = []
        for each in OPERATIONS:
            if not caller.may_call(each):
                continue
            row = ROWS[each.name].body or {}
            if "{session_id}" in each.path:
                tried = await doors.call(caller.name, each, {**ids, "path": {**ids["path"], "session_id": RESERVED}})
            elif "session_id" in row:
                tried = await doors.call(caller.name, each, {**ids, "session": RESERVED})
            else:
                continue
            if tried.status_code != 422 or "reserved" not in tried.text or "Petunia" in tried.text:
                faults.append((each.name, tried.status_code, tried.text[:200]))
        for name, tool in TOOLS.items():
            arguments = tool_arguments(name, ids)
            if "session_id" in arguments and caller.may_call(tool.operation):
                sent = {"name": name, "arguments": {**arguments, "session_id": RESERVED}}
                tried = await doors.ask(caller.name, "tools/call", sent)
                if "reserved" not in tried.text or "Petunia" in tried.text:
                    faults.append((f"mcp {name}", tried.text[:200]))
        for each in RESOURCES:
            if "{session_id}" in each.template and caller.may_call(each.operation):
                uri = each.template.replace("{session_id}", RESERVED).replace("{turn_id}", "t1")
                tried = await doors.ask(caller.name, "resources/read", {"uri": uri})
                if "reserved" not in tried.text or "Petunia" in tried.text:
                    faults.append((uri, tried.text[:200]))
        assert not faults


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize(
    "named",
    [
        {"headers": {"x-jacquard-session": RESERVED}},
        {"headers": {"x-openwebui-chat-id": RESERVED}},
        {"body": {"metadata": {"session_id": RESERVED}}},
        {"headers": {"x-jacquard-session": "x" * (MOST_CHARS + 1)}},
        {"body": {"metadata": {"session_id": "a\nb"}}},
    ],
    ids=lambda each: json.dumps(each)[:40],
)
async def test_a_chat_in_a_session_that_cannot_be_named_passes_without_the_engine(tmp_path, upstream, path, named):
    async with open_doors(tmp_path, upstream) as doors:
        answer = await doors.send("play", "POST", path, {**CHAT, **named.get("body", {})}, named.get("headers"))
        assert (answer.status_code, answer.headers["x-jacquard-error"]) == (200, "config")
        assert "Petunia" not in str(upstream.requests[-1].body)
        assert (await doors.send("admin", "GET", "/api/v1/sessions")).json()["items"] == []


def find_ids(body, path=()):
    """Yield the path of each id of a row's body: what stands for a prepared id, and what is named like one."""
    for key, value in body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ():
        names = [each for each in (*path, key) if isinstance(each, str)]
        if (
            isinstance(value, str)
            and names
            and names[-1].endswith(("_id", "_ids", "_key", "depends_on", "derived_from"))
        ):
            yield (*path, key)
        elif names[-1] not in ("document", "pack", "config"):
            yield from find_ids(value, (*path, key))


def with_value(body, path, value):
    """Return a body in which another value stands at a path."""
    if not path:
        return value
    copy = dict(body) if isinstance(body, dict) else list(body)
    copy[path[0]] = with_value(copy[path[0]], path[1:], value)
    return copy


@pytest.mark.parametrize("kind", WRONG_IDS)
async def test_an_id_that_cannot_be_one_is_refused_wherever_it_is_given(tmp_path, upstream, kind):
    async with open_doors(tmp_path, upstream) as doors:
        ids, wrong = await doors.prepare_session("s", waits=True), WRONG_IDS[kind]
        faults, tried = [], 0
        for each in OPERATIONS:
            row = ROWS[each.name]
            names = [part[1:-1] for part in each.path.split("/") if part.startswith("{")]
            answers = {
                name: await doors.call("admin", each, {**ids, "path": {**ids["path"], name: wrong}}) for name in names
            }
            for path in find_ids(row.body):
                body = with_value(fill(row.body, ids), path, wrong)
                answers[[key for key in path if isinstance(key, str)][-1]] = await doors.call(
                    "admin", each, ids, body=body
                )
            for name in {"branch", "turn", "viewer"} & set(row.query):
                answers[name] = await doors.call("admin", each, ids, query={name: wrong})
            for name, answer in answers.items():
                tried += 1
                if answer.status_code != 422 or answer.json()["error"]["code"] != "config" or name not in answer.text:
                    faults.append((each.name, name, answer.status_code, answer.text[:200]))
        assert not faults
        assert tried > 100


async def test_an_id_at_the_limit_goes_all_the_way(tmp_path, upstream):
    async with open_doors(tmp_path, upstream) as doors:
        for name in ("x" * MOST_CHARS, "\U0001f469\u200d\U0001f680" * (MOST_CHARS // 3), "会话 一/二?%2F"):
            ids = await doors.prepare_session(name)
            assert (await doors.call("play", BY_NAME["get_session_head"], ids)).json()["session_id"] == name
            found = await doors.send("play", "GET", "/api/v1/sessions")
            assert name in found.json()["items"]


@pytest.mark.parametrize("operation", ["prepare_turn", "swipe", "retry"])
@pytest.mark.parametrize("caller", ["play", "chief", "stranger", "author"])
async def test_each_setting_is_open_to_a_call_as_its_definition_says(tmp_path, upstream, operation, caller):
    async with open_doors(tmp_path, upstream) as doors:
        ids = await doors.prepare_session("s", player=caller)
        found = next(each for each in OPERATIONS if each.name == operation)
        row, faults = ROWS[operation].body, []
        for setting in settings_of():
            if setting.field.rules.get("call") is not None:
                continue
            config = "http://evil.example"
            for name in reversed(setting.path):
                config = {name: config}
            answer = await doors.call(caller, found, ids, body={**fill(row, ids), "config": config})
            if answer.status_code != 422 or "a call cannot set this" not in answer.text:
                faults.append((setting.path, answer.status_code, answer.text[:200]))
        assert not faults


OPTIONS = {
    "redact": False,
    "redaction_rules": {"dictionaries": []},
    "pass_through": True,
    "keep_original": True,
    "store_content": False,
    "own_words": True,
}
"""Options of ingestion that are the operator's, each with a value that is not its default."""


def test_an_option_of_ingestion_is_open_to_a_call_or_the_operators():
    assert {each.name for each in fields(IngestOptions)} == OPEN_OPTIONS | set(OPTIONS)


@pytest.mark.parametrize("operation", ["ingest", "record_tool_call"])
@pytest.mark.parametrize("caller", ["play", "author", "admin"])
async def test_what_is_redacted_and_kept_is_not_a_calls_to_say(tmp_path, upstream, operation, caller):
    async with open_doors(tmp_path, upstream) as doors:
        ids = await doors.prepare_session("s")
        found = next(each for each in OPERATIONS if each.name == operation)
        row = {**fill(ROWS[operation].body, ids), "content" if operation == "ingest" else "result": SECRET_KEY}
        for name, value in OPTIONS.items():
            answer = await doors.call(caller, found, ids, body={**row, "options": {name: value}})
            assert answer.status_code == (200 if caller == "admin" else 422), (name, answer.text)
            assert caller == "admin" or f"options.{name}: a call cannot set this" in answer.text
        label = {**row, "options": {"trust": "authored"}}
        answer = await doors.call(caller, found, ids, body=label)
        assert answer.status_code == (200 if caller in ("author", "admin") else 422), answer.text
        if caller != "admin":
            kept = (await doors.send("admin", "GET", "/api/v1/sessions/s/document")).text
            assert SECRET_KEY.split()[-1] not in kept


async def test_two_spellings_of_an_address_are_one_and_ids_are_decoded_once(tmp_path, upstream):
    async with open_doors(tmp_path, upstream) as doors:
        await doors.prepare_session("a%2Fb")
        for spelt in ("/api/v1/sessions/a%252Fb", "/%61pi/v1/sessions/a%252Fb", "/api/%76%31/sessions/%61%252F%62"):
            assert (await doors.send("play", "GET", spelt)).json()["session_id"] == "a%2Fb"
        for other in ("/api/v1/sessions/a%2Fb", "/%61pi/v1/sessions/a%2Fb", "/api/v1/sessions/a%25252Fb"):
            assert (await doors.send("play", "GET", other)).status_code == 404
        reached = await doors.ask("play", "resources/read", {"uri": "jacquard://sessions/a%252Fb"})
        assert "a%2Fb" in reached.text
        reached = await doors.ask("play", "resources/read", {"uri": "jacquard://sessions/a%2Fb"})
        assert "There is no session 'a/b'" in reached.text


async def test_what_the_chief_may_know_reaches_the_chief(tmp_path, upstream):
    async with open_doors(tmp_path, upstream) as doors:
        """The secrets are there to be found: otherwise the other tests of this module would show nothing."""
        await doors.prepare_session("s")
        turn = await doors.send("chief", "POST", "/api/v1/sessions/s/turns", {"message": ASKED, "turn_id": "again"})
        assert LORE in turn.text
        assert "Larkspur" in (await doors.send("chief", "GET", "/api/v1/sessions/s/messages")).text
        assert "Foxglove" in (await doors.send("play", "GET", "/api/v1/sessions/s/evidence")).text
        assert "Petunia" in (await doors.send("play", "GET", "/api/v1/users/ida/facts")).text


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
async def test_a_viewer_gets_no_facts_about_a_user_whose_name_its_chat_client_gives(tmp_path, upstream, path):
    named = {**CHAT, "messages": [{"role": "user", "name": "ida", "content": "What is my ship called?"}]}
    async with open_doors(tmp_path, upstream) as doors:
        for caller, is_told in (("play", path == "/v1/chat/completions"), ("stranger", False)):
            answer = await doors.send(caller, "POST", path, named, {"x-jacquard-session": f"of-{caller}"})
            assert "x-jacquard-error" not in answer.headers
            assert ("Petunia" in str(upstream.requests[-1].body)) is is_told, caller
