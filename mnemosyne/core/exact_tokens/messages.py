"""Counts the tokens of whole messages, exactly if the tokenizer of the named model is installed.

A caller names the model by a hint (`gpt-4o`). An exact count for a model of OpenAI needs tiktoken and litellm, because litellm's
wheel contains the encodings; for a model of Qwen or DeepSeek it needs the package with its vocabulary (`vocabularies`). litellm
itself is not imported, and tiktoken is imported with the first hint.
Neither the network nor a folder named by an environment variable is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from mnemosyne.core.exact_tokens.vocabularies import find_vocabulary
from mnemosyne.core.tokens import CalibratedEstimator

MESSAGE_TOKENS = 4
"""Tokens that a message has in addition to its text: its role, and the separator before the next message."""

Count = Callable[[str], int]


class _Estimates(Protocol):
    name: str

    def estimate(self, text: str) -> int: ...


class MessageTokenEstimator:
    """A `MessageEstimator` that counts the tokens of messages by `estimator`, which counts only texts.

    A model hint (the name of a model) has an effect only if `estimator` is our rule-based one (`CalibratedEstimator`) and the
    tokenizer of the model is installed. Any other estimator counts every text itself. The first count with a hint reads a
    file, so do not make it on the event loop. `name` is the name of `estimator`.
    """

    def __init__(self, estimator: _Estimates) -> None:
        self.name = estimator.name
        self._count, self._follows = estimator.estimate, isinstance(estimator, CalibratedEstimator)

    def estimate(self, text: str) -> int:
        """Return the number of tokens of `text` (0 for the empty text)."""
        return self._count(text)

    def estimate_text(self, text: str, model_hint: str | None = None) -> int:
        """Return the number of tokens of `text` for the model `model_hint` (None: no particular model)."""
        return self._counter(model_hint)(text)

    def estimate_message(self, role: str, content: str, model_hint: str | None = None) -> int:
        """Return the number of tokens of one message, with its role and the separator before the next one."""
        return MESSAGE_TOKENS + self._counter(model_hint)(content)

    def estimate_messages(self, messages: Iterable[Any], model_hint: str | None = None) -> int:
        """Return the number of tokens of all messages. A message is a mapping or a value with `role` and `content`."""
        return sum(self.estimate_message(*_parts(message), model_hint) for message in messages)

    def counts_exactly(self, model_hint: str | None) -> bool:
        """Return whether texts with this hint are counted by the tokenizer of the model, and not by `estimate`."""
        return self._follows and model_hint is not None and find_model_counter(model_hint) is not None

    def _counter(self, model_hint: str | None) -> Count:
        exact = find_model_counter(model_hint) if self._follows and model_hint is not None else None
        return exact or self._count


@lru_cache(maxsize=16)
def find_model_counter(model: str) -> Count | None:
    """Return a function that counts the tokens of a text for a model (`gpt-4o`, `openai/gpt-4o`, `deepseek-chat`).

    Return None if the tokenizer of the model is not installed.
    """
    vocabulary = find_vocabulary(model)
    if vocabulary is not None:
        return vocabulary.open_counter().estimate if vocabulary.is_installed() else None
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
