"""Operations of the service that are tools of the MCP server, with their descriptions for a model. Values, except two answers.

A tool is an operation with a shorter description, fewer arguments and a shorter answer, because every word of it is sent to the
model with every request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from jacquard.client.wire import SentMessage, shorten_report
from jacquard.service.http.operation import Call, Operation, Run
from jacquard.service.http.operations.turns import is_dry_run, prepare
from jacquard.service.http.routes import OPERATIONS


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """Operation as a tool."""

    operation: Operation
    doc: str
    only: tuple[str, ...] = ()
    """Fields of the body and parameters that are arguments (none named: all)."""
    run: Run
    """The operation's own unless given; so `answer`."""
    answer: Any
    omit: frozenset[str] = frozenset()
    """Fields that are left out of the answer."""
    reads: bool = False
    """True if it changes nothing."""
    destroys: bool = False
    """True if it removes something."""
    is_idempotent: bool = False
    """True if a second call with the same arguments changes nothing more."""
    for_review: bool = False
    """True if it is listed only with `memory.review`."""

    @property
    def name(self) -> str:
        """Name of the tool, the same as its operation's."""
        return self.operation.name


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnPrompt:
    """Prompt of a prepared turn."""

    turn_id: str
    messages: tuple[SentMessage, ...] = ()
    tokens: int = 0
    reply: str | None = None
    """Set if the turn is complete without a model."""
    receipt: str = ""
    """Resource that explains each part of the prompt ('': nothing was written)."""
    degradations: tuple[str, ...] = ()
    """Degradation codes."""
    redacted: tuple[str, ...] = ()
    """Rules by which secrets were removed from the message."""


async def _prepare_prompt(call: Call) -> TurnPrompt:
    turn = await prepare(call)
    report = shorten_report(turn.report)
    return TurnPrompt(
        turn_id=turn.turn_id,
        messages=tuple(SentMessage(role=each.role, content=each.content) for each in turn.messages),
        tokens=report.budget.used_tokens,
        reply=turn.reply,
        receipt="" if is_dry_run(call) else receipt_uri(turn.session_id, turn.turn_id),
        degradations=tuple(each.code for each in report.degradations),
        redacted=report.redacted,
    )


_BY_NAME: Mapping[str, Operation] = {each.name: each for each in OPERATIONS}
_HEAD = frozenset({"lineage", "version"})
_ENTRY = frozenset(
    {"scope", "when", "chain", "branch_id", "depth", "turn_id", "priority", "metadata", "trust", "at", "speaker"}
)
_REPLY = frozenset({"thought", "ops", "verdicts", "version", "set_aside"})
_ORIGIN = frozenset({"message", "start", "end", "span", "refs", "evidences", "digest"})


def _tool(name: str, doc: str, **more: Any) -> Tool:
    operation = _BY_NAME[name]
    given = {"run": operation.run, "answer": operation.answer, **more}
    return Tool(operation=operation, doc=doc, **given)


TOOLS: Mapping[str, Tool] = {
    each.name: each
    for each in (
        _tool("list_sessions", "List session ids.", reads=True),
        _tool("start_session", "Start a session, or find it.", omit=_HEAD, is_idempotent=True),
        _tool(
            "continue_session",
            "Start a session with another's memories; query: only those.",
            only=("new_session_id", "query"),
            omit=_HEAD,
            is_idempotent=True,
        ),
        _tool(
            "prepare_turn",
            "Give the user's message; get the prompt with relevant memory. Answer from it, then commit the answer.",
            only=("message", "turn_id", "dry_run"),
            run=_prepare_prompt,
            answer=TurnPrompt,
            is_idempotent=True,
        ),
        _tool(
            "commit_assistant_message",
            "Store your answer to the prepared turn, word for word.",
            only=("message", "turn_id"),
            omit=_REPLY,
        ),
        _tool("search_memory", "Find memories, and why each was found.", reads=True),
        _tool("get_memory", "Read one memory.", omit=frozenset({"entry_ids"}), reads=True),
        _tool("remember_memory", "Remember a new fact; never what a search or a prompt has shown."),
        _tool("edit_memory", "Correct the text of a memory.", destroys=True),
        _tool("supersede_memory", "A memory holds no longer; text: what holds now, if anything.", destroys=True),
        _tool("pin_memory", "Show a memory in every prompt.", is_idempotent=True),
        _tool("unpin_memory", "Undo pin_memory."),
        _tool("forget_memory", "Erase a memory for good. Ask the user first.", destroys=True),
        _tool("memory_proposals", "List what waits for the user's yes.", reads=True, for_review=True),
        _tool("accept_proposal", "Carry out a proposal. Ask the user first.", destroys=True, for_review=True),
        _tool("reject_proposal", "Refuse a proposal. Ask the user first.", destroys=True, for_review=True),
        _tool("memory_log", "List edits of memory.", reads=True),
        _tool("undo_memory_edit", "Undo an edit of memory_log.", destroys=True, is_idempotent=True),
        _tool("get_state", "Read the state.", reads=True),
        _tool("set_state", "Set values of the state by path, as hero.health.", omit=_HEAD, destroys=True),
        _tool("list_worlds", "List worlds.", reads=True),
        _tool("list_lore", "List lore.", omit=_ENTRY, reads=True),
        _tool("add_lore", "Add an entry of lore.", omit=_ENTRY),
        _tool("edit_lore", "Change an entry of lore.", omit=_ENTRY, destroys=True, is_idempotent=True),
        _tool("explain", "Say where a text of a turn's prompt comes from.", omit=_ORIGIN, reads=True),
        _tool("why_not", "Say why a memory is not in a turn's prompt.", reads=True),
    )
}
"""All tools, in the order in which they are listed."""


SCHEME = "jacquard://"


def receipt_uri(session_id: str, turn_id: str) -> str:
    """Return the address of a turn's receipt."""
    return f"{SCHEME}sessions/{quote(session_id, safe='')}/turns/{quote(turn_id, safe='')}/receipt"
