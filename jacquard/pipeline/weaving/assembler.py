"""The assembler as a part that a host may replace (seed 002 section 6.6), and the check of what it returns.

The receipt leads from every character of a prompt to its block, so a prompt whose spans do not cover it is never sent. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from jacquard.core.blocks import FRAME, Skein
from jacquard.core.errors import AssemblerError
from jacquard.core.receipt import BlockSpan
from jacquard.pipeline.weaving.assemble import AssembledPrompt, PromptMessage, assemble


class Assembler(Protocol):
    """Joins a skein into messages. Pure: it reads no clock, calls nothing, and the same arguments give the same prompt.

    1. The spans cover every character of every message, in order and without overlap.
    2. A span names a block of the skein, or `frame` for text of the assembler's own.
    3. The tokens of all spans add up to `tokens`.

    It is called in a worker thread, several times for one turn. A prompt that breaks a rule is refused with AssemblerError.
    """

    def assemble(self, skein: Skein, count: Callable[[str], int]) -> AssembledPrompt:
        """Return the prompt of a skein; `count` gives the tokens of a text."""
        ...


class RoleMessageAssembler:
    """The built-in `Assembler`: role messages, the layers in their wrappers, and the same as one XML text."""

    def assemble(self, skein: Skein, count: Callable[[str], int]) -> AssembledPrompt:
        """Return the prompt of a skein; `count` gives the tokens of a text."""
        return assemble(skein, count)


ROLE_MESSAGES = RoleMessageAssembler()
"""The assembler of every prompt for which a host brings none."""


def name_of_assembler(assembler: Assembler) -> str:
    """Return the name of a host's assembler, by which a record says that a replay needs it; empty for the built-in one."""
    return "" if isinstance(assembler, RoleMessageAssembler) else type(assembler).__name__


def assemble_checked(assembler: Assembler, skein: Skein, count: Callable[[str], int]) -> AssembledPrompt:
    """Return the prompt of a skein by an assembler; AssemblerError, which names it, for a prompt that breaks its rules."""
    made = assembler.assemble(skein, count)
    if (name := name_of_assembler(assembler)) and (fault := _find_fault(made, skein)):
        raise AssemblerError(name, fault)
    return made


def _find_fault(made: AssembledPrompt, skein: Skein) -> str:
    """Return half a sentence on the first rule that a prompt breaks; empty where it breaks none."""
    if not isinstance(made, AssembledPrompt):
        return f"returned {type(made).__name__}; it must return an AssembledPrompt"
    if not all(isinstance(message, PromptMessage) for message in made.messages):
        return "returned messages that are no PromptMessage"
    known = {block.block_id for block in skein.blocks()} | {FRAME}
    spans: dict[int, list[BlockSpan]] = {}
    for span in made.spans:
        if span.block_id not in known:
            return f"has a span of {span.block_id!r}, which is no block of this prompt"
        if not 0 <= span.message < len(made.messages):
            return f"has a span of message {span.message}, but the prompt has {len(made.messages)} messages"
        spans.setdefault(span.message, []).append(span)
    for place, message in enumerate(made.messages):
        at = 0
        for span in spans.get(place, ()):
            if span.start != at or span.end < span.start:
                return f"has a span from {span.start} to {span.end} of message {place}, where one from {at} on is due"
            at = span.end
        if at != len(message.content):
            return f"covers {at} of the {len(message.content)} characters of message {place} with spans"
    total = sum(span.tokens for span in made.spans)
    return "" if total == made.tokens else f"says {made.tokens} tokens, but its spans add up to {total}"
