"""The numbers of a BERT sentence encoder, whatever file they were read from.

Arrays only. Must not import a reader of a file, nor what runs a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.floating[Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dense:
    """A linear layer. `weight`: shape (outputs, inputs), as files hold it; `bias`: shape (outputs,)."""

    weight: FloatArray
    bias: FloatArray


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerNorm:
    """Scale and shift of a layer normalization, each of shape (dimensions,)."""

    scale: FloatArray
    shift: FloatArray


@dataclass(frozen=True, kw_only=True, slots=True)
class BertLayer:
    """One transformer layer: attention, then the feed-forward part, each with the normalization that follows it."""

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
    """A BERT with GELU and absolute positions.

    `words`: shape (vocabulary, dimensions). `positions`: shape (most tokens, dimensions), with the row of the only token type
    (0) added. `epsilon`: of every layer normalization.
    """

    words: FloatArray
    positions: FloatArray
    embedding_norm: LayerNorm
    layers: tuple[BertLayer, ...]
    heads: int
    epsilon: float
