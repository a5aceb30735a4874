"""Recognises calls of clients that are not turns, such as titles, summaries, quiet prompts and probes. Such calls pass
the proxy unchanged.

A rule (`CallRule`) is plain data in a YAML file. Its texts are searched literally, without regard to case; they are not
patterns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from filament import FilamentError
from filament.payload import load_yaml
from jacquard.core.errors import ConfigError
from jacquard.service.proxy.requests.chat_request import ChatRequest, text_of
from jacquard.service.proxy.requests.headers import read_header
from mnemosyne.values import dataclass

PASS, TURN, SAME_TURN = "pass", "turn", "same_turn"
"""Treatments of a call. PASS: the call passes unchanged. TURN: the call is a turn. SAME_TURN: the call continues a
reply, and gets the text that was added to the newest turn once more.
"""
MOST_RULES, MOST_TEXTS, MOST_CHARS = 1_000, 1_000, 10_000
LOOKED_AT_CHARS = 20_000
"""Number of characters that are searched for the texts of rules, at the beginning of a message and again at its end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallRule:
    """One rule: a name, conditions, and the treatment (`treat`) of the calls to which it applies.

    A rule applies if all of its conditions are true. An empty condition (None, empty or false) is always true. If a
    condition has several texts, one of them is enough.
    """

    name: str
    treat: str = PASS
    max_tokens: int | None = None
    """Condition: the call limits its answer to `max_tokens` or less (None: no condition)."""
    last_message: tuple[str, ...] = ()
    """Condition: the newest message contains one of these texts."""
    alone: tuple[str, ...] = ()
    """Condition: the call has only one message, and this message equals one of these texts, with the same case."""
    system: tuple[str, ...] = ()
    """Condition: a system message contains one of these texts."""
    first_user: tuple[str, ...] = ()
    """Condition: the first user message contains one of these texts."""
    last_role: tuple[str, ...] = ()
    """Condition: the newest message has one of these roles."""
    no_user_message: bool = False
    """Condition, if true: the call has no user message."""
    header: tuple[tuple[str, str], ...] = ()
    """Condition: each of these (name, value) pairs is a header of the call, without regard to case."""

    def holds(self, request: ChatRequest, headers: Mapping[str, str]) -> bool:
        """Return whether the rule applies to a call with this `request` and these HTTP `headers`."""
        messages = request.messages
        last = messages[-1] if messages else {}
        asked = request.max_tokens
        first = next(([each] for each in messages if each.get("role") == "user"), [])
        return (
            (self.max_tokens is None or (asked is not None and asked <= self.max_tokens))
            and (not self.last_message or _holds_one([last], self.last_message))
            and (not self.alone or (len(messages) == 1 and text_of(last.get("content")).strip() in self.alone))
            and (not self.system or _holds_one(request.system_messages, self.system))
            and (not self.first_user or _holds_one(first, self.first_user))
            and (not self.last_role or last.get("role") in self.last_role)
            and (not self.no_user_message or not first)
            and all(read_header(headers, name).lower() == value.lower() for name, value in self.header)
        )


def _holds_one(messages: Sequence[Mapping[str, Any]], texts: Sequence[str]) -> bool:
    for message in messages:
        text = text_of(message.get("content"))
        if len(text) > 2 * LOOKED_AT_CHARS:
            text = f"{text[:LOOKED_AT_CHARS]}\n{text[-LOOKED_AT_CHARS:]}"
        text = text.lower()
        if any(each.lower() in text for each in texts):
            return True
    return False


def find_rule(rules: Sequence[CallRule], request: ChatRequest, headers: Mapping[str, str]) -> CallRule | None:
    """Return the first of `rules` that applies to a call. Return None if no rule applies; the call is a turn then."""
    return next((rule for rule in rules if rule.holds(request, headers)), None)


def load_rules(file: str | None) -> tuple[CallRule, ...]:
    """Return the rules in the YAML file `file` (None: the rules that are shipped).

    Raises ConfigError if the file cannot be read or a rule is invalid; the error names the file and the rule.
    """
    try:
        if file is None:
            text, named = files("jacquard.service.proxy").joinpath("rules.yaml").read_text("utf-8"), "rules.yaml"
        else:
            text, named = Path(file).read_text("utf-8"), file
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file}: the rules cannot be read ({getattr(error, 'strerror', None) or 'no UTF-8 text'}); name a YAML file."
        ) from None
    try:
        value = load_yaml(text)
    except FilamentError as error:
        raise ConfigError(f"{named}: {error}") from None
    return read_rules(value, named)


def read_rules(value: Any, file: str) -> tuple[CallRule, ...]:
    """Return the rules in `value`, the parsed content of a YAML file: a mapping whose key `rules` has a list of
    mappings. `file` is the name of the file, for error messages.

    Raises ConfigError if a rule is invalid; the error names the rule.
    """
    listed = value.get("rules") if isinstance(value, Mapping) else None
    if not isinstance(listed, list) or len(listed) > MOST_RULES:
        raise ConfigError(f"{file}: there is no list `rules` of at most {MOST_RULES} rules.")
    return tuple(_read_rule(each, f"{file}: rule {number}") for number, each in enumerate(listed, start=1))


def _read_rule(value: Any, where: str) -> CallRule:
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise ConfigError(f"{where} has no name; write it as a mapping with `name` and its conditions.")
    where = f"{where} ({value['name'][:60]})"
    readers = {"treat": _read_treat, "max_tokens": _read_count, "no_user_message": _read_flag, "header": _read_header}
    given: dict[str, Any] = {}
    for name, each in value.items():
        if name not in CallRule.__slots__:
            known = ", ".join(CallRule.__slots__)
            raise ConfigError(f"{where}: there is no condition {str(name)[:60]!r}; there are: {known}.")
        if name != "name":
            given[name] = readers.get(name, _read_texts)(each, f"{where}: {name}")
    if not set(given) - {"treat"}:
        raise ConfigError(f"{where} has no condition, so it would apply to every call; give it one.")
    return CallRule(name=value["name"], **given)


def _read_treat(value: Any, where: str) -> str:
    if value not in (PASS, TURN, SAME_TURN):
        raise ConfigError(f"{where} is {str(value)[:40]!r}, but must be {PASS}, {TURN} or {SAME_TURN}.")
    return str(value)


def _read_count(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"{where} is {str(value)[:40]!r}, but must be a whole number.")
    return value


def _read_flag(value: Any, where: str) -> bool:
    if value is not True:
        raise ConfigError(f"{where} is {str(value)[:40]!r}; write true, or leave it out.")
    return True


def _read_texts(value: Any, where: str) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    is_list = isinstance(texts, list) and 0 < len(texts) <= MOST_TEXTS
    if not is_list or not all(isinstance(each, str) and 0 < len(each) <= MOST_CHARS for each in texts):
        raise ConfigError(f"{where} must be a text or a list of texts, none of them empty.")
    return tuple(texts)


def _read_header(value: Any, where: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for pair in value.items() for each in pair):
        raise ConfigError(f"{where} must be a mapping from names of headers to their values.")
    return tuple((name.lower(), text) for name, text in value.items())
