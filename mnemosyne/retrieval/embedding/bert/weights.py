"""Defines the weights of a BERT sentence encoder as arrays. Readers of different file formats all return these classes.

This module must not import code that reads files or runs models.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mnemosyne.values import dataclass

FloatArray: TypeAlias = NDArray[np.floating[Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dense:
    """A linear layer. `weight` has shape (outputs, inputs), as in the files, and `bias` has shape (outputs,)."""

    weight: FloatArray
    bias: FloatArray


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerNorm:
    """Scale and shift of a layer normalization, each of shape (dimensions,)."""

    scale: FloatArray
    shift: FloatArray


@dataclass(frozen=True, kw_only=True, slots=True)
class BertLayer:
    """One transformer layer: attention, then the feed-forward part, each followed by its normalization."""

    query: Dense
    key: Dense
    value: Dense
    attention_output: Dense
    attention_norm: LayerNorm
    feed_forward_in: Dense
    feed_forward_out: Dense
    feed_forward_norm: LayerNorm


@dataclass(frozen=True, kw_only=True, slots=True)
class BertWeights:
    """Weights of a BERT with GELU and absolute positions.

    `words` has shape (vocabulary, dimensions). `positions` has shape (maximum tokens, dimensions) and includes the
    row of the only token type (0). `epsilon` is used in every layer normalization.
    """

    words: FloatArray
    positions: FloatArray
    embedding_norm: LayerNorm
    layers: tuple[BertLayer, ...]
    heads: int
    epsilon: float
