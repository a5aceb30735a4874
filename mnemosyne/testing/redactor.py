"""The contract suite of `mnemosyne.protocols.Redactor`: subclass `RedactorContract`, define the redactor, and run
pytest.

    from mnemosyne.testing.redactor import RedactorContract

    class TestMyRedactor(RedactorContract):
        def make_redactor(self) -> Redactor:
            return MyRedactor()

`test_rule_<n>_...` tests rule n of the protocol. The samples in `redactor_samples` show what a redactor must find
with its own rules, and what it must not change. The class of a redactor for fewer kinds of data overrides `sensitive`
and `harmless`.
"""

from __future__ import annotations

import anyio
import pytest

from mnemosyne.core.errors import RedactionError
from mnemosyne.protocols import Redactor
from mnemosyne.schema.redaction import RedactionRules
from mnemosyne.testing.redactor_samples import HARMLESS, SENSITIVE

_LEAST_TICKS = 3
"""Minimum number of times that another task must run while a text is searched for a tenth of a second."""


class RedactorContract:
    """Tests for every Redactor. The docstring of the module shows how to use them."""

    pytestmark = pytest.mark.anyio
    sensitive = SENSITIVE
    harmless = HARMLESS

    def make_redactor(self) -> Redactor:
        """Return a fresh redactor with its own rules."""
        raise NotImplementedError("say which redactor is tested")

    async def test_rule_1_no_sample_survives(self) -> None:
        """The sensitive part of each sample is not in the result."""
        redactor = self.make_redactor()
        for text, secret in self.sensitive:
            result = await redactor.redact(text)
            assert secret not in result.redacted_text, f"{secret!r} survived in {result.redacted_text!r}"
            assert result.has_sensitive
            assert result.applied_rules

    async def test_rule_1_samples_in_one_text_go_too(self) -> None:
        """A long text that contains all samples loses all their sensitive parts."""
        text = "\n".join(text for text, _ in self.sensitive)
        redacted = (await self.make_redactor().redact(text)).redacted_text
        assert [secret for _, secret in self.sensitive if secret in redacted] == []

    async def test_rule_1_rules_of_a_call_hold(self) -> None:
        """The patterns and fields that a call gives are used in place of the redactor's own rules."""
        rules = RedactionRules(patterns=(r"dragon-\d+",), field_paths=("$.user.name",), dictionaries=())
        result = await self.make_redactor().redact('{"user": {"name": "Ann"}, "pet": "dragon-12"}', rules)
        assert "Ann" not in result.redacted_text
        assert "dragon-12" not in result.redacted_text
        assert "pet" in result.redacted_text

    async def test_rule_1_rules_of_a_call_leave_the_rest_alone(self) -> None:
        """If the rules of a call name only secrets, personal data stays."""
        text = "My name is Ana Silva, 13800138000; password: hunter2!x"
        result = await self.make_redactor().redact(text, RedactionRules(dictionaries=("secrets",)))
        assert result.redacted_text.startswith("My name is Ana Silva, 13800138000; password: ")
        assert "hunter2" not in result.redacted_text

    async def test_rule_2_redacting_again_changes_nothing(self) -> None:
        """A redacted text stays unchanged when it is redacted again, and nothing more is found in it."""
        redactor = self.make_redactor()
        for text in (*(text for text, _ in self.sensitive), *self.harmless):
            once = await redactor.redact(text)
            again = await redactor.redact(once.redacted_text)
            assert again.redacted_text == once.redacted_text
            assert not again.has_sensitive

    async def test_rule_3_harmless_texts_stay(self) -> None:
        """No harmless sample changes."""
        redactor = self.make_redactor()
        changed = [text for text in self.harmless if (await redactor.redact(text)).redacted_text != text]
        assert changed == []

    async def test_rule_4_a_search_that_cannot_be_finished_is_an_error(self) -> None:
        """A pattern that never ends is refused, not skipped."""
        with pytest.raises(RedactionError):
            await self.make_redactor().redact("a" * 5_000, RedactionRules(patterns=("(?R)",), dictionaries=()))

    async def test_rule_5_the_event_loop_goes_on(self) -> None:
        """Other tasks run while a long text is searched."""
        redactor = self.make_redactor()
        await redactor.redact("warm")
        text = "the quick brown fox 2024 " * 8_000
        ticks, done = 0, False

        async def tick() -> None:
            nonlocal ticks
            while not done:
                await anyio.sleep(0.001)
                ticks += not done

        async with anyio.create_task_group() as group:
            group.start_soon(tick)
            await redactor.redact(text)
            done = True
        assert ticks >= _LEAST_TICKS
