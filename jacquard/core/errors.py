"""Errors of jacquard.

JacquardError
├── ConfigError
├── BudgetExceededError
├── InputTooLargeError
├── QuotaExceededError
│   └── TurnRateError
├── TemplateError
├── LayoutError
├── WorldUnavailableError
├── AssemblerError
├── SelectorError
├── SummarizerError
├── ChunkConflictError
├── MissingChunksError
├── ToolPairError
└── ModelError
"""

from __future__ import annotations

from collections.abc import Mapping

from jacquard.core.block_kinds import HOST_SOURCE, remedy_of
from jacquard.core.model_calls import Call
from mnemosyne.core.errors import ContextEngineError
from mnemosyne.schema.document import ModelUsage
from mnemosyne.schema.memory import EMPTY


class JacquardError(ContextEngineError):
    """Root of everything that jacquard raises on purpose."""


class ConfigError(JacquardError):
    """A setting is unknown, or its value is not allowed."""


class MemoryNotFoundError(ConfigError):
    """No memory or edit of memory with this id exists in the session, or the caller may not see it."""


class BudgetExceededError(JacquardError):
    """The blocks that must be in the prompt do not fit.

    `blocks` contains (block id, tokens) of all of them, biggest first. `without_state` is the same error for a prompt without
    the state, if that was tried.
    """

    def __init__(
        self,
        limit_tokens: int,
        needed_tokens: int,
        blocks: tuple[tuple[str, int], ...],
        without_state: BudgetExceededError | None = None,
    ) -> None:
        self.limit_tokens, self.needed_tokens, self.blocks = limit_tokens, needed_tokens, blocks
        self.without_state = without_state
        biggest = ", ".join(f"{name} {tokens}" for name, tokens in blocks[:5])
        rest = without_state or self
        least = f" With nothing of the state shown it still needs {rest.needed_tokens}." if without_state else ""
        super().__init__(
            f"What must be kept needs {needed_tokens} tokens, {_describe_limit(limit_tokens)} (biggest: {biggest}).{least} "
            f"Raise the budget, lower the reply reserve, or shorten these blocks.{_remedy(rest.blocks)}"
        )


def _describe_limit(limit_tokens: int) -> str:
    """Return the available tokens as text; tags and message overhead are counted first and may take more than there are."""
    if limit_tokens > 0:
        return f"the budget is {limit_tokens}"
    return "and the budget leaves no room at all: tags and message overhead alone take it"


_TAIL_REMEDY = "it is the host's own tool calls and results: shorten them, or raise budget.reserved_tail_tokens"


def _remedy(blocks: tuple[tuple[str, int], ...]) -> str:
    """Return advice about the biggest block as a sentence; '' if there is none."""
    name = blocks[0][0] if blocks else ""
    if name.startswith(f"{HOST_SOURCE}:"):
        return f" The biggest is {name}: it is one of the host's `instructions` in the settings; shorten it."
    remedy = _TAIL_REMEDY if name == "tail" else remedy_of(name)
    return f" The biggest is {name}: {remedy}." if remedy else ""


class InputTooLargeError(JacquardError):
    """An input is larger than its limit; nothing was changed.

    `what` names the input (`user message`, `reply`), `size` and `limit` are in `unit` (`characters`), and `setting` is the name
    of the limit (`limits.user_message_chars`).
    """

    def __init__(self, what: str, size: int, limit: int, setting: str, unit: str = "characters") -> None:
        self.what, self.size, self.limit, self.setting, self.unit = what, size, limit, setting, unit
        super().__init__(
            f"The {what} has {size:,} {unit}, the limit is {limit:,}. Shorten it, or raise the setting {setting}."
        )


class QuotaExceededError(JacquardError):
    """A tenant has reached a limit: `what` is limited (sessions, entries, stored_bytes), and `setting` sets the `limit`."""

    def __init__(self, tenant: str, what: str, limit: int, setting: str, advice: str) -> None:
        self.tenant, self.what, self.limit, self.setting = tenant, what, limit, setting
        super().__init__(
            f"The tenant {tenant!r} has as many {what.replace('_', ' ')} as it may: {limit:,} ({setting}). Nothing was written. "
            f"{advice}"
        )


class TurnRateError(QuotaExceededError):
    """A tenant has started as many turns in a minute as it may; the next one may start after `seconds`."""

    def __init__(self, tenant: str, limit: int, setting: str, seconds: int) -> None:
        super().__init__(tenant, "turns a minute", limit, setting, f"Come again in {seconds} s, or raise the setting.")
        self.seconds = seconds


class TemplateError(JacquardError):
    """A template cannot be loaded or rendered; `line` is 1-based or None, and `source_line` is its text."""

    def __init__(self, file: str, line: int | None, reason: str, source_line: str = "") -> None:
        self.file, self.line, self.reason, self.source_line = file, line, reason, source_line
        where = file if line is None else f"{file}:{line}"
        shown = f"\n    {source_line.strip()}" if source_line.strip() else ""
        super().__init__(f"{where}: {reason}{shown}")


class LayoutError(JacquardError):
    """The layout does not exist, or its file is not valid."""


class WorldUnavailableError(JacquardError):
    """The pack of a session's world is not in the store or cannot be read (`reason`); nothing was written."""

    def __init__(self, world_id: str, reason: str) -> None:
        self.world_id, self.reason = world_id, reason
        super().__init__(
            f"The pack of world {world_id!r} cannot be used: {reason}. Name the pack once, and the store keeps it: --world DIR on "
            "the command line, open_runtime(world=DIR) in Python."
        )


class AssemblerError(JacquardError):
    """An assembler of the host made a prompt whose receipt would be wrong; `assembler` is the name of its class."""

    def __init__(self, assembler: str, fault: str) -> None:
        self.assembler, self.fault = assembler, fault
        super().__init__(
            f"The assembler {assembler} {fault}. Its spans must cover each character of each message in order, name blocks of "
            "the prompt or `frame`, and add up to its tokens. Nothing was written."
        )


class SelectorError(JacquardError):
    """The selector could not choose. `code`: `timeout`, `model_error`, `unreadable`, `circuit_open`, `no_model`.

    `counts` contains the tokens of the call if it was answered nevertheless.
    """

    def __init__(self, code: str, detail: str, counts: Mapping[str, int] = EMPTY) -> None:
        self.code, self.detail, self.counts = code, detail, dict(counts)
        super().__init__(f"{code}: {detail}")


class SummarizerError(JacquardError):
    """A text could not be shortened, or a conversation could not be summarized; the message states why.

    `calls` (`jacquard.core.model_calls.Call`) are the model calls that were paid for nevertheless, in their order.
    """

    def __init__(self, detail: str, *calls: Call) -> None:
        self.calls = calls
        super().__init__(detail)


class ModelError(JacquardError):
    """A model could not be called. `code`: `timeout`, `connection`, `refused`, `unavailable`, `bad_answer`.

    `usages` are the records of the failed calls, if the caller counted them.
    """

    def __init__(self, code: str, detail: str, usages: tuple[ModelUsage, ...] = ()) -> None:
        self.code, self.detail, self.usages = code, detail, usages
        super().__init__(f"{code}: {detail}")


class ChunkConflictError(JacquardError):
    """A chunk of a reply was refused; the earlier chunks are kept."""

    def __init__(self, session_id: str, turn_id: str, index: int, reason: str) -> None:
        self.session_id, self.turn_id, self.index = session_id, turn_id, index
        super().__init__(f"Chunk {index} of turn {turn_id!r} in session {session_id!r} was refused: {reason}.")


class MissingChunksError(JacquardError):
    """A reply cannot be finished because chunks are missing (`missing`; None: all of them); the received ones are kept."""

    def __init__(self, session_id: str, turn_id: str, missing: tuple[int, ...] = ()) -> None:
        self.session_id, self.turn_id, self.missing = session_id, turn_id, missing
        what = f"its chunks {', '.join(map(str, missing[:10]))} never came" if missing else "no chunk of it is held"
        super().__init__(
            f"The reply to turn {turn_id!r} in session {session_id!r} is not whole: {what}. Send what is missing, or commit "
            "the whole reply with commit_assistant_message."
        )


class ToolPairError(JacquardError):
    """A tail contains a tool call without its result, or a result without its call; `place` is the message's index (0-based)."""

    def __init__(self, place: int, call_id: str, reason: str) -> None:
        self.place, self.call_id = place, call_id
        named = f"tool call {call_id!r}" if call_id else "a tool call without an id"
        super().__init__(
            f"Message {place} of the tail: {named} {reason}. A call and its result go together or not at all."
        )
