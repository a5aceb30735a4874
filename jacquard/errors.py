"""Errors of jacquard.

JacquardError
├── ConfigError
├── BudgetExceededError
├── TemplateError
├── LayoutError
├── SelectorError
├── SummarizerError
└── ModelError
"""

from __future__ import annotations


class JacquardError(Exception):
    """Root of everything that jacquard raises on purpose."""


class ConfigError(JacquardError):
    """A setting is unknown or has a value that cannot be."""


class BudgetExceededError(JacquardError):
    """What must be kept does not fit; `blocks` are (block id, tokens) of all must blocks, biggest first."""

    def __init__(self, limit_tokens: int, needed_tokens: int, blocks: tuple[tuple[str, int], ...]) -> None:
        self.limit_tokens, self.needed_tokens, self.blocks = limit_tokens, needed_tokens, blocks
        biggest = ", ".join(f"{name} {tokens}" for name, tokens in blocks[:5])
        super().__init__(
            f"What must be kept needs {needed_tokens} tokens, the budget is {limit_tokens} (biggest: {biggest}). "
            "Raise the budget, lower the reply reserve, or shorten these blocks."
        )


class TemplateError(JacquardError):
    """A template cannot be loaded or rendered; `line` is 1-based or None, `source_line` the text there."""

    def __init__(self, file: str, line: int | None, reason: str, source_line: str = "") -> None:
        self.file, self.line, self.reason, self.source_line = file, line, reason, source_line
        where = file if line is None else f"{file}:{line}"
        shown = f"\n    {source_line.strip()}" if source_line.strip() else ""
        super().__init__(f"{where}: {reason}{shown}")


class LayoutError(JacquardError):
    """There is no such layout, or its file has a fault."""


class SelectorError(JacquardError):
    """The selector could not choose. `code`: `timeout`, `model_error`, `unreadable`, `circuit_open`, `no_model`."""

    def __init__(self, code: str, detail: str) -> None:
        self.code, self.detail = code, detail
        super().__init__(f"{code}: {detail}")


class SummarizerError(JacquardError):
    """A text could not be made shorter, or a talk not summed up; the sentence says why."""


class ModelError(JacquardError):
    """A model could not be called. `code`: `timeout`, `connection`, `refused`, `unavailable`, `bad_answer`."""

    def __init__(self, code: str, detail: str) -> None:
        self.code, self.detail = code, detail
        super().__init__(f"{code}: {detail}")
