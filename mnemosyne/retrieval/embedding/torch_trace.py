"""Runs a model's transformer as one traced graph, so that a forward pass does not hold Python's interpreter lock.

Without a graph, torch runs module by module and needs the interpreter at every step. A forward pass and concurrent Python
code then wait for each other, and gain nothing from a second processor. The graph runs without the interpreter, and a single
short text takes a sixth less time. The vectors are equal. A model whose vectors would differ runs untraced.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import logging as transformers_logging

from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.protocols import Vectors

_log = open_log(__name__)
_OUTPUT = "last_hidden_state"
_SAMPLES = (
    ("key", "The brass key opens the cellar below the old mill, not the gate of the temple."),
    ("She nods, takes the lantern from its hook and walks down to the river, where nobody has been for years. " * 8,),
)
_TOLERANCE = 1e-5

Encode = Callable[[Sequence[str]], Vectors]


def run_traced(model: Any, encode: Encode) -> bool:
    """Replace the transformer of `model` by a traced graph, if the vectors stay the same. Return whether it was replaced.

    `encode` is the model's own function from texts to unit vectors. The vectors of sample texts are compared; if they differ,
    the model is left unchanged. If the model cannot be traced, no error is raised.
    """
    transformer = getattr(model[0], "auto_model", None)
    if transformer is None or torch.device(model.device).type != "cpu":
        return False
    try:
        before = [encode(texts) for texts in _SAMPLES]
        given = _capture_arguments(transformer, lambda: encode(_SAMPLES[0]))
        with _silence_tracer():
            transformer.forward = _graph_of(transformer, given)
        if all(np.allclose(encode(t), b, atol=_TOLERANCE) for t, b in zip(_SAMPLES, before, strict=True)):
            return True
        _log.info("%s gives other vectors when traced; it runs untraced", type(transformer).__name__)
    except Exception:
        _log.info("%s cannot be traced; it runs untraced", type(transformer).__name__, exc_info=True)
    vars(transformer).pop("forward", None)
    return False


def _capture_arguments(transformer: Any, call: Callable[[], object]) -> Mapping[str, Any]:
    """Return the arguments with which the transformer is called."""
    plain, seen = transformer.forward, {}

    def record_call(**given: Any) -> Any:
        seen.update(given)
        return plain(**given)

    transformer.forward = record_call
    try:
        call()
    finally:
        del transformer.forward
    return seen


def _graph_of(transformer: Any, given: Mapping[str, Any]) -> Callable[..., Any]:
    """Return a replacement for `transformer.forward`: the graph for calls like the given one, the transformer for
    others.
    """
    names = [name for name, value in given.items() if isinstance(value, torch.Tensor)]
    rest = {name: value for name, value in given.items() if name not in names}
    plain = transformer.forward
    with torch.inference_mode():
        graph = torch.jit.trace(
            _Positional(transformer, names, rest), tuple(given[name].clone() for name in names), check_trace=False
        )

    def forward(**called: Any) -> Any:
        if called.keys() != given.keys() or any(called[name] != value for name, value in rest.items()):
            return plain(**called)
        return BaseModelOutput(**{_OUTPUT: graph(*(called[name] for name in names))})

    return forward


class _Positional(torch.nn.Module):  # type: ignore[misc]
    """A transformer with positional tensors and one output tensor, as tracing requires."""

    def __init__(self, transformer: torch.nn.Module, names: Sequence[str], rest: Mapping[str, Any]) -> None:
        super().__init__()
        self.transformer = transformer
        self._names, self._rest = tuple(names), dict(rest)

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        """Return the states of the last layer, of shape (texts, tokens, dimensions)."""
        given = dict(zip(self._names, tensors, strict=True))
        states: torch.Tensor = self.transformer(**given, **self._rest)[_OUTPUT]
        return states


@contextmanager
def _silence_tracer() -> Iterator[None]:
    """Suppress the tracer's warnings about branches in the model's code: comparing the vectors shows that they are
    harmless.
    """
    level = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformers_logging.set_verbosity(level)
