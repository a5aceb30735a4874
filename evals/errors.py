"""Errors of the harness.

EvalError
├── DatasetError
├── CacheError
├── PartError
└── SetupError
"""

from __future__ import annotations


class EvalError(Exception):
    """Root of everything that the harness raises on purpose."""


class DatasetError(EvalError):
    """A labelled set has a fault; the sentence names file, line and field."""


class CacheError(EvalError):
    """The cache of vectors cannot be used; the sentence names the file."""


class PartError(EvalError):
    """A retriever or selector of the evaluator failed or broke a rule of its Protocol; the sentence names it and the input."""


class SetupError(EvalError):
    """Options that do not go together, or a part that is not installed."""
