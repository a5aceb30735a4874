"""Writes a BERT as an ONNX graph. Its inputs are token ids and mask; its output is the mean over the tokens.

No other module imports onnx.

The graph has only standard operators, so every onnxruntime from 1.20 on runs it. With `quantized`, weights are int8 with one
scale per output; the vocabulary has one scale per row. The input of a linear layer is rounded to 8 bits with one scale per
token.

`onnxruntime.quantization` is not used, because it has one scale per forward pass. The vector of a text then depends on the
other texts in the pass, and its cosine to the float32 vector is 0.996. With one scale per token the cosine is 0.999.

Processors without VNNI add two products in 16 bits. This sum overflows only if two neighbouring weights and both their
inputs are near the largest values of their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mnemosyne.retrieval.embedding.bert.weights import BertLayer, BertWeights, Dense, FloatArray, LayerNorm

_OPSET = 20
_IR_VERSION = 9
_INPUTS = ("input_ids", "attention_mask")
_OUTPUT = "sentence_embedding"
_TOP = 127
_MIDDLE = 128
_LEAST = 1e-9
_MASKED = -1e9
_ROWS_AT_ONCE = 8_192


def write_bert_graph(weights: BertWeights, file: Path, *, quantized: bool, exact_values: bool = False) -> None:
    """Write the model file. The inputs are `input_ids` and `attention_mask` of shape (texts, tokens); the output has
    shape (texts, dimensions).

    With `exact_values`, the values of the attention stay in float32 when the rest is rounded. A small model needs
    this: the median cosine of MiniLM's vectors to its float32 vectors rises from 0.9974 to 0.9988, for a tenth more
    time.
    """
    graph = _Graph(quantized=quantized, exact_values=exact_values)
    width = weights.words.shape[1]
    mask = graph.add("Cast", "attention_mask", to=TensorProto.FLOAT)
    states = _embed_tokens(graph, weights)
    hidden = graph.add("Mul", graph.add("Sub", graph.number(1.0), mask), graph.number(_MASKED))
    bias = graph.add("Unsqueeze", hidden, graph.indexes(1, 2))
    for place, layer in enumerate(weights.layers):
        states = _add_layer(graph, f"layer{place}", layer, states, bias, weights)
    # The mean over the tokens of each text.
    column = graph.add("Unsqueeze", mask, graph.indexes(2))
    total = graph.add("ReduceSum", graph.add("Mul", states, column), graph.indexes(1), keepdims=0)
    count = graph.add("ReduceSum", column, graph.indexes(1), keepdims=0)
    graph.nodes.append(helper.make_node("Div", [total, count], [_OUTPUT]))
    made = helper.make_graph(
        graph.nodes,
        "bert",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"]) for name in _INPUTS],
        [helper.make_tensor_value_info(_OUTPUT, TensorProto.FLOAT, ["texts", width])],
        list(graph.constants.values()),
    )
    opsets = [helper.make_opsetid("", _OPSET)]
    onnx.save(helper.make_model(made, opset_imports=opsets, ir_version=_IR_VERSION), str(file))


class _Graph:
    """The nodes and constants written so far."""

    def __init__(self, *, quantized: bool, exact_values: bool) -> None:
        self.quantized, self.exact_values = quantized, exact_values
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output; return the output's name."""
        return self.add_split(kind, *inputs, outputs=1, **attributes)[0]

    def add_split(self, kind: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        """Add a node with several outputs; return their names."""
        names = [f"{kind}{len(self.nodes)}_{place}" for place in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def constant(self, name: str, values: Any) -> str:
        """Keep an array under a name, and return the name."""
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(values), name)
        return name

    def number(self, value: float) -> str:
        """Return the name of one float."""
        return self.constant(f"float {value!r}", np.array(value, dtype=np.float32))

    def indexes(self, *values: int) -> str:
        """Return the name of a row of whole numbers."""
        return self.constant(f"int64 {values}", np.array(values, dtype=np.int64))


def _embed_tokens(graph: _Graph, weights: BertWeights) -> str:
    if graph.quantized:
        numbers, scales = _round_rows(weights.words)
        taken = graph.add("Gather", graph.constant("words", numbers), "input_ids")
        scale = graph.add("Gather", graph.constant("words.scales", scales[:, None]), "input_ids")
        words = graph.add("Mul", graph.add("Cast", taken, to=TensorProto.FLOAT), scale)
    else:
        words = graph.add("Gather", graph.constant("words", weights.words.astype(np.float32)), "input_ids")
    length = graph.add("Shape", "input_ids", start=1, end=2)
    table = graph.constant("positions", weights.positions.astype(np.float32))
    positions = graph.add("Slice", table, graph.indexes(0), length, graph.constant("axis", np.array([0])))
    states = graph.add("Add", words, positions)
    return _add_norm(graph, "embedding", weights.embedding_norm, states, weights.epsilon)


def _add_layer(graph: _Graph, name: str, layer: BertLayer, states: str, bias: str, weights: BertWeights) -> str:
    width = weights.words.shape[1]
    part = width // weights.heads
    # The query is divided by the root of a head's width beforehand.
    shrink = part**-0.5
    scaled = Dense(weight=layer.query.weight * shrink, bias=layer.query.bias * shrink)
    if graph.exact_values:
        value = _add_dense(graph, f"{name}.attention.values", layer.value, states, exact=True)
        query, key = _add_joined(graph, f"{name}.attention", (scaled, layer.key), states)
    else:
        query, key, value = _add_joined(graph, f"{name}.attention", (scaled, layer.key, layer.value), states)
    by_head = graph.indexes(0, 0, weights.heads, part)

    def heads(given: str, order: list[int]) -> str:
        return graph.add("Transpose", graph.add("Reshape", given, by_head), perm=order)

    scores = graph.add("Add", graph.add("MatMul", heads(query, [0, 2, 1, 3]), heads(key, [0, 2, 3, 1])), bias)
    seen = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), heads(value, [0, 2, 1, 3]))
    flat = graph.add("Reshape", graph.add("Transpose", seen, perm=[0, 2, 1, 3]), graph.indexes(0, 0, width))
    attended = _add_dense(graph, f"{name}.attention.output", layer.attention_output, flat)
    states = _add_norm(
        graph, f"{name}.attention", layer.attention_norm, graph.add("Add", attended, states), weights.epsilon
    )
    inner = graph.add("Gelu", _add_dense(graph, f"{name}.feed_forward.in", layer.feed_forward_in, states))
    outer = _add_dense(graph, f"{name}.feed_forward.out", layer.feed_forward_out, inner)
    return _add_norm(
        graph, f"{name}.feed_forward", layer.feed_forward_norm, graph.add("Add", outer, states), weights.epsilon
    )


def _add_joined(graph: _Graph, name: str, layers: Sequence[Dense], states: str) -> list[str]:
    """Add linear layers that share one product; return the names of their outputs."""
    joined = Dense(
        weight=np.concatenate([each.weight for each in layers]), bias=np.concatenate([each.bias for each in layers])
    )
    made = _add_dense(graph, name, joined, states)
    return graph.add_split("Split", made, outputs=len(layers), axis=-1, num_outputs=len(layers))


def _add_norm(graph: _Graph, name: str, norm: LayerNorm, states: str, epsilon: float) -> str:
    scale = graph.constant(f"{name}.norm.scale", norm.scale.astype(np.float32))
    shift = graph.constant(f"{name}.norm.shift", norm.shift.astype(np.float32))
    return graph.add("LayerNormalization", states, scale, shift, axis=-1, epsilon=epsilon)


def _add_dense(graph: _Graph, name: str, dense: Dense, states: str, *, exact: bool = False) -> str:
    product = _multiply_rounded if graph.quantized and not exact else _multiply
    bias = graph.constant(f"{name}.bias", dense.bias.astype(np.float32))
    return graph.add("Add", product(graph, name, dense.weight, states), bias)


def _multiply(graph: _Graph, name: str, weight: FloatArray, states: str) -> str:
    return graph.add("MatMul", states, graph.constant(f"{name}.weight", weight.T.astype(np.float32)))


def _multiply_rounded(graph: _Graph, name: str, weight: FloatArray, states: str) -> str:
    numbers, scales = _round_rows(weight)
    largest = graph.add("ReduceMax", graph.add("Abs", states), graph.indexes(-1), keepdims=1)
    scale = graph.add("Mul", graph.add("Max", largest, graph.number(_LEAST)), graph.number(1 / _TOP))
    steps = graph.add("Add", graph.add("Round", graph.add("Div", states, scale)), graph.number(_MIDDLE))
    rounded = graph.add("Cast", steps, to=TensorProto.UINT8)
    middle = graph.constant("middle", np.array(_MIDDLE, dtype=np.uint8))
    product = graph.add("MatMulInteger", rounded, graph.constant(f"{name}.weight", numbers.T), middle)
    plain = graph.add("Mul", graph.add("Cast", product, to=TensorProto.FLOAT), scale)
    return graph.add("Mul", plain, graph.constant(f"{name}.scales", scales))


def _round_rows(values: FloatArray) -> tuple[Any, FloatArray]:
    """Return the rows as int8, and the scale of each."""
    numbers = np.empty(values.shape, dtype=np.int8)
    scales = np.empty(len(values), dtype=np.float32)
    # In parts, because a whole vocabulary has a hundred million values and each step would copy it.
    for start in range(0, len(values), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        largest = np.maximum(np.abs(values[part]).max(axis=1), _LEAST)
        scales[part] = largest.astype(np.float32) / np.float32(_TOP)
        numbers[part] = np.rint(values[part] / scales[part, None])
    return numbers, scales
