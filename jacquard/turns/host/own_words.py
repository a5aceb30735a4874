"""Masks secrets (keys, cards, passwords) in user messages and keeps the rest as written. Pure, except for the redactor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mnemosyne.chains.messages.message_parts import PARTS, is_text_part, read_parts
from mnemosyne.evidence.redactions import redaction_field
from mnemosyne.privacy.redact import redact_own_words
from mnemosyne.protocols import Redactor
from mnemosyne.schema.session import Message, Role


async def mask_secrets(message: Message, redactor: Redactor, *, pass_through: bool) -> Message:
    """Return a user's message with its secrets masked, and with a field that lists the redaction rules that found the
    secrets.

    A message of another role, or without secrets, is returned unchanged. If the message cannot be searched and
    `pass_through` is true, the message is returned unchanged. Raises RedactionError if the message cannot be searched
    and `pass_through` is false.
    """
    if message.role is not Role.USER:
        return message
    parts = read_parts(message)
    texts = [message.content, *(part["text"] for part in parts if is_text_part(part))]
    results = await redact_own_words(redactor, texts, pass_through=pass_through)
    rules = dict.fromkeys(rule for each in results for rule in each.applied_rules)
    if not rules:
        return message
    changed = sum(each.has_sensitive for each in results)
    extra: dict[str, Any] = {**message.extra, **redaction_field(tuple(rules), changed)}
    if parts:
        said = iter(results[1:])
        extra[PARTS] = [{**part, "text": next(said).redacted_text} if is_text_part(part) else part for part in parts]
    return replace(message, content=results[0].redacted_text, extra=extra)
