"""Every way into the service: one call of each operation, proxy route and MCP tool, and the callers who try them."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import anyio.lowlevel
import httpx

from jacquard.config.service import ProxySettings, ServiceSettings
from jacquard.remote.operation import Operation
from jacquard.service.access.records import using_records
from jacquard.service.mcp.tools import TOOLS
from jacquard.service.running.application import build_app
from jacquard.service.values import Scope
from mnemosyne.schema.memory import profile_session_id

WORLD = Path(__file__).parents[3] / "examples" / "whispering_forest" / "en"
WORLD_ID = "whispering_forest_en"
ASKED = "Chief, where is the temple key, and what lies in the lead box in your hearth?"
RESERVED = profile_session_id("ida")
PATIENCE_SECONDS = 120

LORE = "It lies in a lead box"
FACT = "Petunia is the name of my ship."
REPLY = "The chief whispers Larkspur."
EVIDENCE = "The file says Foxglove."
SECRETS = (LORE, "Petunia", "Larkspur", "Foxglove")
"""Guarded lore, a user's fact, a guarded turn, and evidence."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One call that works: its parameters and its body. `$name` stands for what `prepare_session` has made."""

    query: dict[str, Any] = field(default_factory=dict)
    body: dict[str, Any] | None = None
    waits: bool = False
    """Whether the session has to have a turn that waits for its reply."""
    code: str = ""
    """The error that the call ends with in the service of the tests, where it has no model."""


_WAITING = "$waiting"
ROWS: dict[str, Row] = {
    "list_sessions": Row(query={"after": "a", "limit": 5}),
    "list_conversations": Row(query={"after": "a", "limit": 5}),
    "get_upstream": Row(),
    "start_session": Row(body={"session_id": "$session"}),
    "get_session_head": Row(query={"branch": "$branch"}),
    "get_document": Row(query={"branch": "$branch"}),
    "put_document": Row(body={"document": "$document"}),
    "list_turns": Row(query={"branch": "$branch"}),
    "list_messages": Row(query={"branch": "$branch"}),
    "edit_message": Row(body={"content": "Another text.", "branch_id": "edited"}),
    "adopt_messages": Row(body={"messages": [{"role": "user", "content": "Hi.", "message_id": "m1", "at": None}]}),
    "archive_session": Row(),
    "open_archived": Row(),
    "list_archived": Row(query={"after": "a"}),
    "branches": Row(),
    "fork": Row(body={"turn_id": "$turn", "branch_id": "forked"}),
    "switch": Row(body={"branch_id": "$branch"}),
    "rollback": Row(body={"turn_id": "$turn"}),
    "summarize": Row(body={"branch_id": "$branch"}),
    "consolidate": Row(body={"branch_id": "$branch"}, code="config"),
    "repair_state": Row(body={"ops": [["SET", "hero.health", 50]], "branch_id": "$branch"}),
    "get_state": Row(query={"branch": "$branch", "turn": "$turn"}),
    "tasks": Row(),
    "upsert_tasks": Row(body={"tasks": [{"task_id": "a"}, {"task_id": "b", "depends_on": ["a"]}]}),
    "prepare_turn": Row(
        body={"message": ASKED, "turn_id": "new", "branch_id": "$branch", "config": {"layout": "auto"}}
    ),
    "swipe": Row(body={"turn_id": "$turn", "config": {"layout": "auto"}}),
    "answer_turn": Row(body={"model": "m"}, code="turn_not_pending"),
    "retry": Row(body={"config": {"layout": "auto"}}),
    "assemble": Row(body={"tail": []}),
    "commit_assistant_message": Row(body={"message": "Thank you.", "turn_id": _WAITING}, waits=True),
    "commit_assistant_chunk": Row(
        body={"chunk": "x", "chunk_index": 0, "turn_id": _WAITING, "message_id": "m"}, waits=True
    ),
    "finalize_assistant_message": Row(body={"turn_id": _WAITING, "message_id": "sent"}, waits=True),
    "abort_assistant_message": Row(body={"turn_id": _WAITING, "message_id": "sent"}, waits=True),
    "record_tool_call": Row(
        body={
            "tool_call": {"tool_call_id": "c1", "tool": "look", "task_id": None, "result_evidence_ids": ["$evidence"]},
            "result_evidence_ids": ["$evidence"],
            "options": {"idempotency_key": "k", "derived_from": []},
        }
    ),
    "record_model_usage": Row(body={"model_usage": {"model_usage_id": "u1"}, "turn_id": "$turn"}),
    "get_turn": Row(),
    "get_changes": Row(),
    "get_receipt": Row(),
    "get_page": Row(),
    "replay": Row(),
    "what_if": Row(body={"config": {"layout": "cache_first"}}),
    "explain": Row(query={"text": "temple key"}),
    "why_not": Row(query={"text": "temple key"}),
    "ingest": Row(
        body={
            "content": "It rains.",
            "source": {"kind": "tool", "name": "weather"},
            "evidence_type": "tool_result",
            "links": {"tool_call_id": "c9"},
            "options": {"idempotency_key": "k", "derived_from": ["$evidence"]},
        }
    ),
    "list_evidences": Row(query={"limit": 5}),
    "get_evidence": Row(),
    "remember": Row(body={"facts": [{"text": "I like tea.", "fact_id": ""}]}),
    "user_facts": Row(),
    "list_users": Row(query={"limit": 5}),
    "list_worlds": Row(),
    "get_world": Row(),
    "put_world": Row(body="$pack"),
    "list_lore": Row(query={"viewer": "chief"}),
    "list_world_files": Row(),
    "get_world_file": Row(),
    "put_world_files": Row(body={"files": {"templates/chat/guidance.j2": "Speak softly."}, "read": {}}),
    "lint_world_files": Row(body={"files": {"templates/chat/guidance.j2": "{{ x }}"}}),
    "run_golden_cases": Row(body={"case": "first"}, code="config"),
    "add_golden_case": Row(body={"case": "second"}, code="config"),
    "preview_templates": Row(body={"layout": "cache_first"}),
    "match_lore": Row(body={"text": ASKED, "branch_id": "$branch"}),
    "mark_memory": Row(body={"wanted": True}),
    "list_marks": Row(),
    "export_marks": Row(code="config"),
    "run_evaluation": Row(body={"retriever": "bm25", "floor": 0.5}, code="config"),
    "list_evaluations": Row(query={"offset": 0}),
    "get_evaluation": Row(code="evaluation_not_found"),
    "list_questions": Row(query={"lost": True, "category": "marked"}, code="evaluation_not_found"),
    "compare_evaluations": Row(query={"metric": "recall@5"}, code="evaluation_not_found"),
    "import_files": Row(
        body={"files": [{"name": "notes.md", "content": "IyBCb2F0CgpUaGUgYm9hdCBpcyByZWQu"}], "dry_run": True}
    ),
    "export_session": Row(query={"branch": "$branch"}),
    "erase": Row(body={"session_id": "$session", "evidence_ids": ["$evidence"], "dry_run": True}),
    "list_audits": Row(),
    "estimate_messages": Row(body={"messages": [{"role": "user", "content": "Hi."}]}),
    "list_settings": Row(),
    "check_health": Row(),
    "get_metrics": Row(query={"minutes": 5}),
    "create_token": Row(body={"scope": "play", "viewer": "elara"}),
    "list_tokens": Row(),
    "revoke_token": Row(),
    "list_audited_calls": Row(query={"limit": 5}),
    "search_memory": Row(body={"text": "temple key lead box hearth boat clock word file"}),
    "get_memory": Row(),
    "browse_memory": Row(query={"branch": "$branch", "limit": 5}),
    "list_facts": Row(query={"branch": "$branch", "limit": 5}),
    "memory_uses": Row(),
    "change_memories": Row(body={"action": "pin", "memory_ids": ["$memory"], "dry_run": True}),
    "remember_memory": Row(body={"text": "The bell is cracked since the flood of last autumn."}),
    "edit_memory": Row(body={"text": "The bell was mended before the winter came."}),
    "supersede_memory": Row(body={"text": "The bell is whole."}),
    "pin_memory": Row(),
    "unpin_memory": Row(),
    "forget_memory": Row(query={"reason": "asked"}),
    "memory_proposals": Row(),
    "accept_proposal": Row(body={"text": "Another text."}, code="memory_not_found"),
    "reject_proposal": Row(code="memory_not_found"),
    "continue_session": Row(body={"new_session_id": "heir", "memory_ids": ["$memory"]}),
    "memory_log": Row(),
    "undo_memory_edit": Row(),
    "set_state": Row(body={"changes": {"hero.health": 42}}),
    "add_lore": Row(body={"text": "The well is deep.", "viewers": ["elara"]}),
    "edit_lore": Row(body={"text": "The well is dry."}),
    "stream_events": Row(),
}
"""One call of each operation. An operation without a row fails."""

CHAT = {"model": "m", "max_tokens": 200, "messages": [{"role": "user", "content": ASKED}]}
PROXY_ROUTES = {
    ("POST", "/v1/chat/completions"): CHAT,
    ("POST", "/v1/messages"): CHAT,
    ("POST", "/v1/messages/count_tokens"): CHAT,
    ("GET", "/v1/models"): None,
    ("GET", "/v1/models/{model:path}"): None,
}
"""One call of each route of the proxy in a service with tenants."""

OWN_ROUTES = {"/openapi.json", "/mcp", "/healthz", "/readyz", "/metrics"}


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who calls: the scope and the viewer of the token, and the tenant; without a scope there is no token that is known."""

    name: str
    scope: Scope | None = None
    viewer: str | None = None
    tenant: str = "north"
    token: str = ""

    @property
    def hidden(self) -> tuple[str, ...]:
        """The secrets that this caller must not read. Both tenants have the world; evidence of the host is for all viewers."""
        if self.tenant != "north":
            return SECRETS[1:]
        return SECRETS[:3] if self.viewer == "stranger" else ()

    def may_call(self, operation: Operation) -> bool:
        """Whether scope and viewer open an operation."""
        order = [*Scope]
        in_scope = self.scope is not None and order.index(self.scope) >= order.index(operation.scope)
        return in_scope and (self.viewer is None or operation.open_to_viewers)


CALLERS = (
    Caller(name="no token"),
    Caller(name="wrong token", token="jq_000000000000_" + "A" * 43),
    Caller(name="play", scope=Scope.PLAY),
    Caller(name="chief", scope=Scope.PLAY, viewer="chief"),
    Caller(name="stranger", scope=Scope.PLAY, viewer="stranger"),
    Caller(name="author", scope=Scope.AUTHOR),
    Caller(name="admin", scope=Scope.ADMIN),
    Caller(name="other tenant", scope=Scope.ADMIN, tenant="south"),
)
KNOWN = tuple(each for each in CALLERS if each.scope is not None)


def fill(sent, ids):
    """Return what is sent, with the ids of a session in place of `$name`."""
    if isinstance(sent, dict):
        return {name: fill(value, ids) for name, value in sent.items()}
    if isinstance(sent, list):
        return [fill(value, ids) for value in sent]
    return ids.get(sent[1:], sent) if isinstance(sent, str) and sent.startswith("$") else sent


class Doors:
    """A service of two tenants with a proxy, and its callers."""

    def __init__(self, client, headers):
        self.client, self.headers = client, headers
        self.pack = {}

    async def prepare_tenant(self):
        """Import the world under another id, whose lore can be edited, and store a fact about a user."""
        pack = await self._do("admin", "GET", f"/api/v1/worlds/{WORLD_ID}")
        self.pack = json.loads(json.dumps(pack).replace(WORLD_ID, "island"))
        await self._do("admin", "PUT", "/api/v1/worlds/island", self.pack)
        await self._do("admin", "POST", "/api/v1/users/ida/facts", {"facts": [{"text": FACT}]})

    async def send(self, caller, method, path, body=None, headers=None, params=None):
        """Make one request."""
        own = {**self.headers[caller], **(headers or {})}
        # A request that is refused waits for nothing, so many of them would be one step of the loop.
        await anyio.lowlevel.checkpoint()
        # A stream that opens by mistake has no end.
        with anyio.fail_after(PATIENCE_SECONDS):
            return await self.client.request(method, path, json=body, headers=own, params=params)

    async def call(self, caller, operation, ids, *, query=None, body=None):
        """Call an operation by its row, with some ids and parts of it changed."""
        row = ROWS[operation.name]
        path = operation.path
        for name, value in ids["path"].items():
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        sent = fill(row.body, ids) if body is None else body
        params = {**fill(row.query, ids), **(query or {})}
        return await self.send(caller, operation.method, path, sent, params=params)

    async def ask(self, caller, method, params):
        """Call a method of MCP; return the whole answer as text, and its status."""
        sent = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.send(caller, "POST", "/mcp", sent, {"Accept": "application/json, text/event-stream"})

    async def prepare_session(self, session_id, *, waits=False, player="chief"):
        """Give the ids of a session in which the chief has played a turn (and waits for another), with evidence and a memory."""
        path = f"/api/v1/sessions/{quote(session_id, safe='')}"
        await self._do("play", "POST", "/api/v1/sessions", {"session_id": session_id})
        await self._do(player, "POST", f"{path}/turns", {"message": ASKED, "turn_id": "t1"})
        await self._do(player, "POST", f"{path}/reply", {"message": REPLY, "turn_id": "t1"})
        content = {"content": EVIDENCE, "source": {"kind": "tool", "name": "file"}, "evidence_type": "tool_result"}
        evidence = await self._do("play", "POST", f"{path}/evidence", content)
        text = {"text": "The boat key hangs behind the blue clock, and Larkspur is its word."}
        edit = await self._do(player, "POST", f"{path}/memory", text)
        if waits:
            await self._do(player, "POST", f"{path}/turns", {"message": "And then?", "turn_id": "t2"})
            chunk = {"chunk": REPLY, "chunk_index": 0, "turn_id": "t2", "message_id": "sent"}
            await self._do(player, "POST", f"{path}/reply/chunks", chunk)
        await self._do(player, "POST", f"{path}/memory/{edit['edit_id']}/pin")
        token = await self._do("admin", "POST", "/api/v1/tokens", {})
        return {
            "session": session_id,
            "turn": "t1",
            "waiting": "t2",
            "branch": "main",
            "evidence": evidence["evidence"]["evidence_id"],
            "memory": edit["edit_id"],
            "document": await self._do("admin", "GET", f"{path}/document"),
            "pack": self.pack,
            "path": {
                "session_id": session_id,
                "turn_id": "t1",
                "message_id": "t1.u",
                "evidence_id": evidence["evidence"]["evidence_id"],
                "memory_id": edit["edit_id"],
                "edit_id": edit["edit_id"],
                "proposal_id": edit["edit_id"],
                "user_id": "ida",
                "world_id": "island",
                "file_name": "templates/chat/guidance.j2",
                "entry_id": self.pack["pack"]["lore"][0]["entry_id"],
                "token_id": token["record"]["token_id"],
                "run_id": "run",
                "other_id": "other",
            },
        }

    async def _do(self, caller, method, path, body=None):
        answer = await self.send(caller, method, path, body)
        assert answer.status_code < 300, (path, answer.text)
        return answer.json() if answer.content else None


@asynccontextmanager
async def open_doors(folder, upstream, *, world=str(WORLD), is_prepared=True):
    """Open a service with all callers of the table; `upstream` is its model server."""
    store, headers = str(folder / "store"), {}
    async with using_records(store) as records:
        for each in CALLERS:
            token = each.token
            if each.scope is not None:
                token, _ = await records.tokens.create(each.tenant, each.scope, viewer=each.viewer)
            headers[each.name] = {"Authorization": f"Bearer {token}"} if token else {}
    settings = ServiceSettings(
        store=store,
        world=world,
        embedder="none",
        tenants=True,
        upstream=upstream.base_url,
        proxy=ProxySettings(key="sk-of-the-server"),
    )
    app = build_app(settings)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://memory.example", timeout=None) as client,
    ):
        doors = Doors(client, headers)
        if is_prepared:
            await doors.prepare_tenant()
        yield doors


def tool_arguments(name, ids):
    """Return the arguments of a tool: those of its operation's row that it takes."""
    tool = TOOLS[name]
    row = ROWS[name]
    sent = {**fill(row.query, ids), **fill(row.body or {}, ids)}
    given = {key: value for key, value in sent.items() if not tool.form.only or key in tool.form.only}
    given.pop("viewer", None)
    named = [part[1:-1] for part in tool.operation.path.split("/") if part.startswith("{")]
    return {**given, **{each: ids["path"][each] for each in named}}
