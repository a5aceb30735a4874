"""The redactor `sample`: the shipped one with one pattern more, numbers of badges."""

from __future__ import annotations

from dataclasses import replace

from mnemosyne import RedactionRules, Redactor, RedactResult
from mnemosyne.privacy.redact import RegexRedactor

BADGE = r"\bbadge-\d{4}\b"


class BadgeRedactor:
    """A redactor on top of the shipped one."""

    def __init__(self, argument: str = "", *, rules: RedactionRules | None = None) -> None:
        own = rules or RedactionRules()
        self._redactor: Redactor = RegexRedactor(replace(own, patterns=(*own.patterns, argument or BADGE)))

    async def redact(self, text: str, rules: RedactionRules | None = None) -> RedactResult:
        """Return the text without badges and without what the rules find."""
        return await self._redactor.redact(text, rules)
