"""Counts whole messages, with the tokenizer of a model hint if it is installed.

That needs tiktoken and litellm: litellm's wheel carries the encodings of OpenAI's models. Neither the network nor a
folder named by the environment is used. litellm is not imported, tiktoken only with the first hint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from mnemosyne.core.tokens import CalibratedEstimator

MESSAGE_TOKENS = 4
"""Tokens of a message in addition to its text: its role, and the separator before the next one."""

Count = Callable[[str], int]


class _Estimates(Protocol):
    name: str

    def estimate(self, text: str) -> int: ...


class MessageTokenEstimator:
    """A `MessageEstimator` made of an estimator that counts only texts.

    A model hint is followed if the estimator goes by rules (`CalibratedEstimator`) and the model's tokenizer is
    installed; an exact estimator, or the host's, always counts by itself. The first count with a hint reads a file, so
    call it off the event loop. `name` is the estimator's.
    """

    def __init__(self, estimator: _Estimates) -> None:
        self.name = estimator.name
        self._count, self._follows = estimator.estimate, isinstance(estimator, CalibratedEstimator)

    def estimate(self, text: str) -> int:
        """Return the number of tokens of `text` (0 for the empty text)."""
        return self._count(text)

    def estimate_text(self, text: str, model_hint: str | None = None) -> int:
        """Return the number of tokens of `text` for a model (None: for any)."""
        return self._counter(model_hint)(text)

    def estimate_message(self, role: str, content: str, model_hint: str | None = None) -> int:
        """Return the number of tokens of one message, with its role and the separator before the next one."""
        return MESSAGE_TOKENS + self._counter(model_hint)(content)

    def estimate_messages(self, messages: Iterable[Any], model_hint: str | None = None) -> int:
        """Return the number of tokens of messages: values with `role` and `content`, or mappings with these keys."""
        return sum(self.estimate_message(*_parts(message), model_hint) for message in messages)

    def counts_exactly(self, model_hint: str | None) -> bool:
        """Return whether a hint leads to another counter than `estimate`."""
        return self._follows and model_hint is not None and find_model_counter(model_hint) is not None

    def _counter(self, model_hint: str | None) -> Count:
        exact = find_model_counter(model_hint) if self._follows and model_hint is not None else None
        return exact or self._count


@lru_cache(maxsize=16)
def find_model_counter(model: str) -> Count | None:
    """Return a function that counts the tokens of a text for a model (`gpt-4o`, `openai/gpt-4o`); None without its
    tokenizer.
    """
    if find_spec("tiktoken") is None:
        return None
    module = import_module("mnemosyne.core.exact_tokens.tiktoken_encoding")
    try:
        encoding = module.load_encoding(module.encoding_of(model), carried_only=True)
    except LookupError:
        return None
    return lambda text: len(encoding.encode_ordinary(text))


def _parts(message: Any) -> tuple[str, str]:
    if isinstance(message, Mapping):
        return str(message.get("role", "")), str(message.get("content") or "")
    return str(message.role), str(message.content)
