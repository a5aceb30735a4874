"""Defines the errors that jacquard raises.

JacquardError
├── ConfigError
│   └── MemoryNotFoundError
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
    """No memory or edit of memory with this id exists in the session, or the caller has no right to see it."""


class BudgetExceededError(JacquardError):
    """The blocks that must be in the prompt do not fit into its budget.

    `limit_tokens` is the budget and `needed_tokens` is what the blocks need. `blocks` contains a pair (block id,
    tokens) for each of these blocks, biggest first. `without_state` is the error that was raised for a prompt that
    shows nothing of the state (None: no such prompt was tried).
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

    `what` names the input (for example `user message` or `reply`). `size` and `limit` are counted in `unit` (for example
    `characters`). `setting` is the name of the setting that contains the limit (for example `limits.user_message_chars`).
    """

    def __init__(self, what: str, size: int, limit: int, setting: str, unit: str = "characters") -> None:
        self.what, self.size, self.limit, self.setting, self.unit = what, size, limit, setting, unit
        super().__init__(
            f"The {what} has {size:,} {unit}, the limit is {limit:,}. Shorten it, or raise the setting {setting}."
        )


class QuotaExceededError(JacquardError):
    """A tenant has reached its limit of `what` (for example sessions, entries, stored_bytes); nothing was written.

    `setting` is the name of the setting that contains `limit`.
    """

    def __init__(self, tenant: str, what: str, limit: int, setting: str, advice: str) -> None:
        self.tenant, self.what, self.limit, self.setting = tenant, what, limit, setting
        super().__init__(
            f"The tenant {tenant!r} has as many {what.replace('_', ' ')} as it may: {limit:,} ({setting}). Nothing was written. "
            f"{advice}"
        )


class TurnRateError(QuotaExceededError):
    """A tenant has started `limit` turns within a minute; the next turn may start after `seconds` seconds."""

    def __init__(self, tenant: str, limit: int, setting: str, seconds: int) -> None:
        super().__init__(tenant, "turns a minute", limit, setting, f"Come again in {seconds} s, or raise the setting.")
        self.seconds = seconds


class TemplateError(JacquardError):
    """A template cannot be loaded or rendered, for `reason`.

    `file` is the template file. `line` is the number of the faulty line, counted from 1 (None: unknown), and `source_line` is
    the text of this line.
    """

    def __init__(self, file: str, line: int | None, reason: str, source_line: str = "") -> None:
        self.file, self.line, self.reason, self.source_line = file, line, reason, source_line
        where = file if line is None else f"{file}:{line}"
        shown = f"\n    {source_line.strip()}" if source_line.strip() else ""
        super().__init__(f"{where}: {reason}{shown}")


class LayoutError(JacquardError):
    """A layout (the file that places blocks in a prompt) does not exist or is not valid."""


class WorldUnavailableError(JacquardError):
    """The pack of a session's world is not in the store or cannot be read. `reason` states which; nothing was written."""

    def __init__(self, world_id: str, reason: str) -> None:
        self.world_id, self.reason = world_id, reason
        super().__init__(
            f"The pack of world {world_id!r} cannot be used: {reason}. Name the pack once, and the store keeps it: --world DIR on "
            "the command line, open_runtime(world=DIR) in Python."
        )


class AssemblerError(JacquardError):
    """An assembler of the host made a prompt whose receipt would be wrong; nothing was written.

    `assembler` is the name of the assembler's class, and `fault` is the end of a sentence that begins with this name.
    """

    def __init__(self, assembler: str, fault: str) -> None:
        self.assembler, self.fault = assembler, fault
        super().__init__(
            f"The assembler {assembler} {fault}. Its spans must cover each character of each message in order, name blocks of "
            "the prompt or `frame`, and add up to its tokens. Nothing was written."
        )


class SelectorError(JacquardError):
    """The selector could not choose memories.

    `code` is one of `timeout`, `model_error`, `unreadable`, `circuit_open`, `no_model`. `counts` contains the tokens of the
    model call if the model answered but the answer could not be used.
    """

    def __init__(self, code: str, detail: str, counts: Mapping[str, int] = EMPTY) -> None:
        self.code, self.detail, self.counts = code, detail, dict(counts)
        super().__init__(f"{code}: {detail}")


class SummarizerError(JacquardError):
    """A text could not be shortened, or a conversation could not be summarized; the message states why.

    `calls` (`jacquard.core.model_calls.Call`) are the model calls that were made and have to be paid for, in their order.
    """

    def __init__(self, detail: str, *calls: Call) -> None:
        self.calls = calls
        super().__init__(detail)


class ModelError(JacquardError):
    """A model could not be called.

    `code` is one of `timeout`, `connection`, `refused`, `unavailable`, `bad_answer`. `usages` are the usage records of the
    failed calls; empty if the code that called the model made no records.
    """

    def __init__(self, code: str, detail: str, usages: tuple[ModelUsage, ...] = ()) -> None:
        self.code, self.detail, self.usages = code, detail, usages
        super().__init__(f"{code}: {detail}")


class ChunkConflictError(JacquardError):
    """Chunk `index` of a streamed reply was refused; the earlier chunks are kept."""

    def __init__(self, session_id: str, turn_id: str, index: int, reason: str) -> None:
        self.session_id, self.turn_id, self.index = session_id, turn_id, index
        super().__init__(f"Chunk {index} of turn {turn_id!r} in session {session_id!r} was refused: {reason}.")


class MissingChunksError(JacquardError):
    """A streamed reply cannot be finished because chunks are missing; the received chunks are kept.

    `missing` contains the numbers of the missing chunks; if it is empty, no chunk was received.
    """

    def __init__(self, session_id: str, turn_id: str, missing: tuple[int, ...] = ()) -> None:
        self.session_id, self.turn_id, self.missing = session_id, turn_id, missing
        what = f"its chunks {', '.join(map(str, missing[:10]))} never came" if missing else "no chunk of it is held"
        super().__init__(
            f"The reply to turn {turn_id!r} in session {session_id!r} is not whole: {what}. Send what is missing, or commit "
            "the whole reply with commit_assistant_message."
        )


class ToolPairError(JacquardError):
    """A tool call in a tail has no result, or a tool result has no call.

    The tail is the tool calls and results that a host sends with a turn. `place` is the index of the message in the tail,
    counted from 0, and `call_id` is the id of the call.
    """

    def __init__(self, place: int, call_id: str, reason: str) -> None:
        self.place, self.call_id = place, call_id
        named = f"tool call {call_id!r}" if call_id else "a tool call without an id"
        super().__init__(
            f"Message {place} of the tail: {named} {reason}. A call and its result go together or not at all."
        )
