"""A store whose index was made with MiniLM goes on with e5: both are real models, and the index is on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from jacquard import CurationConfig, RuntimeConfig, open_runtime
from jacquard.wiring.parts.embedder import reopen_embedder
from jacquard.wiring.runtime import open_embedder
from mnemosyne.retrieval.embedding.packaged_models import E5, MINILM
from mnemosyne.schema.memory import session_scope

pytestmark = pytest.mark.anyio

PACK = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
CONFIG = RuntimeConfig(curation=CurationConfig(deadline_ms=60_000))
SAID = (
    ("I hide the silver key under the mill wheel.", "The water covers it."),
    ("The ferryman asked me for seven coins.", "He is greedy."),
    ("Let us sleep at the inn.", "The beds are hard."),
)


async def play(runtime, said):
    for user, reply in said:
        await runtime.engine.prepare_turn("demo", user)
        await runtime.engine.commit_assistant_message("demo", f"<content>{reply}</content>")
        assert await runtime.engine.settle(600)


async def ask(runtime, question="Which coins did the boatman want?"):
    turn = await runtime.engine.prepare_turn("demo", question)
    found = [each.signals.vector for each in turn.report.stream_b.candidates]
    return {each.code for each in turn.report.degradations}, [each for each in found if each is not None]


async def test_minilm_serves_until_e5_takes_over_behind_a_commit(tmp_path):
    scope = session_scope("demo")
    async with open_runtime(tmp_path, world=PACK, embedder=MINILM.package, config=CONFIG) as runtime:
        await runtime.ensure_session("demo")
        await play(runtime, SAID)
        assert await runtime.index.encoder_of(scope) == MINILM.name
    async with open_runtime(tmp_path, embedder=E5.package, config=CONFIG) as runtime:
        await runtime.ensure_session("demo")
        # The former model is loaded behind the first turn that needs it.
        codes, vectors = await ask(runtime, "What did the boatman want?")
        assert (codes, vectors) == ({"embedder_loading"}, [])
        assert await runtime.engine.settle(600)
        codes, vectors = await ask(runtime)
        assert codes & {"encoder_changed", "vectors_late"}
        assert not codes & {"no_vectors", "encoder_missing"}
        assert vectors or "vectors_late" in codes
        await play(runtime, SAID[-1:])
        assert await runtime.index.encoder_of(scope) == E5.name
        codes, vectors = await ask(runtime)
        assert not codes & {"encoder_changed", "no_vectors", "vectors_behind"}
    del runtime  # Its models are freed here, and not in the first step of the next one.
    async with open_runtime(tmp_path, embedder=E5.package, config=CONFIG) as runtime:
        assert await runtime.index.encoder_of(scope) == E5.name
        assert await runtime.index.unembedded_ids(scope, E5.name, 100) == ()


def test_an_embedder_is_opened_again_by_the_name_that_an_index_has(tmp_path):
    for name in (MINILM.package, E5.package):
        stored = open_embedder(name).name
        assert reopen_embedder(stored).name == stored
    # What is stored does not say where a remote model was reached.
    assert reopen_embedder("openai/text-embedding-3-small") is None
    assert reopen_embedder("of-another-time") is None
    assert reopen_embedder(str(tmp_path)) is None
