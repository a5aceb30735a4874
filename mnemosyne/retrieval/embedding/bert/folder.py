"""Reads a BERT from the folder of a sentence-transformers model: `config.json` and `model.safetensors`.

The module does not need torch. A safetensors file begins with eight bytes, the length of a JSON header.
The header has the type, shape and place of each tensor. The numbers follow
(https://github.com/huggingface/safetensors).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.retrieval.embedding.bert.weights import BertLayer, BertWeights, Dense, FloatArray, LayerNorm
from mnemosyne.retrieval.embedding.export_note import PARTS_FILE, TOKENIZER_FILE
from mnemosyne.values import dataclass

_WEIGHTS_FILE = "model.safetensors"
_CONFIG_FILE = "config.json"
_LIMITS_FILE = "sentence_bert_config.json"
_TYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8"}
_PARTS = (
    "sentence_transformers.models.Transformer",
    "sentence_transformers.models.Pooling",
    "sentence_transformers.models.Normalize",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class BertFolder:
    """Contents of the folder of a BERT."""

    weights: BertWeights
    max_tokens: int
    """Longer texts are cut to this length."""
    prompts: Mapping[str, str]
    """Prefix of a text by purpose (`query`, `document`)."""


def is_bert_folder(folder: Path) -> bool:
    """Return whether `read_bert_folder` can read this kind of model. The weights are not read."""
    try:
        _check_kind(folder, _read_json(folder / _CONFIG_FILE))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    return (folder / _WEIGHTS_FILE).is_file() and (folder / TOKENIZER_FILE).is_file()


def read_bert_folder(folder: Path) -> BertFolder:
    """Read a BERT whose sentence vector is the mean over its tokens.

    Raises EmbedderUnavailableError if the folder has another kind of model, or its files cannot be read.
    """
    try:
        config = _read_json(folder / _CONFIG_FILE)
        _check_kind(folder, config)
        tensors = read_safetensors(folder / _WEIGHTS_FILE)
        limits = folder / _LIMITS_FILE
        most = int(config["max_position_embeddings"])
        limit = _read_json(limits).get("max_seq_length") if limits.is_file() else None
        prompts = folder / "config_sentence_transformers.json"
        given = _read_json(prompts).get("prompts", {}) if prompts.is_file() else {}
        return BertFolder(
            weights=_weights_of(tensors, config),
            max_tokens=min(most, int(limit)) if limit else most,
            prompts={purpose: given[purpose] for purpose in ("query", "document") if given.get(purpose)},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EmbedderUnavailableError(f"{folder} cannot be read as a BERT without torch: {error}.") from error


def _read_json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _check_kind(folder: Path, config: Mapping[str, Any]) -> None:
    """ValueError unless it is a BERT with GELU, absolute positions and mean pooling, and nothing else follows."""
    wanted = {"model_type": "bert", "hidden_act": "gelu"}
    for name, value in wanted.items():
        if config.get(name) != value:
            raise ValueError(f"{name} is {config.get(name)!r}, not {value!r}")
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise ValueError("its positions are not absolute")
    limits = folder / _LIMITS_FILE
    if limits.is_file() and _read_json(limits).get("do_lower_case"):
        raise ValueError("its texts are put in lower case first")
    modules = _read_json(folder / PARTS_FILE)
    if [each["type"] for each in modules] != [*_PARTS[: len(modules)]] or len(modules) < 2:
        raise ValueError("its parts are not a transformer, a pooling and a normalization")
    pooling = _read_json(folder / modules[1]["path"] / _CONFIG_FILE)
    if [name for name, on in pooling.items() if name.startswith("pooling_mode") and on] != ["pooling_mode_mean_tokens"]:
        raise ValueError("its sentence vector is not the mean over the tokens")


def read_safetensors(file: Path) -> Mapping[str, FloatArray]:
    """Return the tensors of a file as float32 arrays, by name.

    Tensors of whole numbers (buffers such as `position_ids`) are left out. Raises ValueError for numbers of another
    type.
    """
    data = file.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    found: dict[str, FloatArray] = {}
    for name, entry in header.items():
        if entry["dtype"].startswith(("I", "U", "BOOL")):
            continue
        if entry["dtype"] not in _TYPES:
            raise ValueError(f"the tensor {name!r} is of type {entry['dtype']}")
        first, last = entry["data_offsets"]
        values = np.frombuffer(data[start + first : start + last], dtype=_TYPES[entry["dtype"]])
        found[name] = values.reshape(entry["shape"]).astype(np.float32)
    return found


def _weights_of(tensors: Mapping[str, FloatArray], config: Mapping[str, Any]) -> BertWeights:
    start = "bert." if "bert.embeddings.word_embeddings.weight" in tensors else ""

    def dense(name: str) -> Dense:
        return Dense(weight=tensors[f"{start}{name}.weight"], bias=tensors[f"{start}{name}.bias"])

    def norm(name: str) -> LayerNorm:
        return LayerNorm(scale=tensors[f"{start}{name}.weight"], shift=tensors[f"{start}{name}.bias"])

    def layer(place: int) -> BertLayer:
        at = f"encoder.layer.{place}."
        return BertLayer(
            query=dense(f"{at}attention.self.query"),
            key=dense(f"{at}attention.self.key"),
            value=dense(f"{at}attention.self.value"),
            attention_output=dense(f"{at}attention.output.dense"),
            attention_norm=norm(f"{at}attention.output.LayerNorm"),
            feed_forward_in=dense(f"{at}intermediate.dense"),
            feed_forward_out=dense(f"{at}output.dense"),
            feed_forward_norm=norm(f"{at}output.LayerNorm"),
        )

    positions = tensors[f"{start}embeddings.position_embeddings.weight"]
    return BertWeights(
        words=tensors[f"{start}embeddings.word_embeddings.weight"],
        positions=positions + tensors[f"{start}embeddings.token_type_embeddings.weight"][0],
        embedding_norm=norm("embeddings.LayerNorm"),
        layers=tuple(layer(place) for place in range(int(config["num_hidden_layers"]))),
        heads=int(config["num_attention_heads"]),
        epsilon=float(config["layer_norm_eps"]),
    )
