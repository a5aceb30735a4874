"""The reranker, with a real cross-encoder: tiny, its weights drawn from a seed. It knows nothing, but the same always."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from anyio.to_thread import run_sync
from click.testing import Result
from curation_parts import asked, candidate
from typer.testing import CliRunner

from jacquard import (
    ConfigError,
    CurationConfig,
    ModelError,
    RuntimeConfig,
    SelectorConfig,
    SelectorError,
    open_runtime,
)
from jacquard.cli.app import app
from jacquard.pipeline.curation.selectors.rerank import LOT, RerankSelector
from jacquard.wiring.runtime import open_reranker, open_selector

pytestmark = [pytest.mark.anyio, pytest.mark.torch]
WORDS = (
    *["the", "a", "key", "opens", "temple", "lantern", "mill", "hangs", "in", "where", "is"],
    *"钥匙神庙:0123456789",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Build a cross-encoder on disk from a configuration and a seed."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    place = tmp_path_factory.mktemp("model") / "tiny"
    place.mkdir()
    (place / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]), encoding="utf-8"
    )
    torch.manual_seed(5)
    config = BertConfig(
        vocab_size=len(WORDS) + 5,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=128,
        num_labels=1,
        initializer_range=0.5,
    )
    BertForSequenceClassification(config).save_pretrained(place)
    BertTokenizer(str(place / "vocab.txt")).save_pretrained(place)
    return str(place)


POOL = [candidate(f"e{n}", f"the key {n} opens the mill {'lantern ' * (n % 4)}") for n in range(LOT + 4)]


async def test_it_takes_the_best_scores_in_their_order_and_always_the_same(folder) -> None:
    scorer = await run_sync(open_reranker, folder)
    try:
        await scorer.warm()
        first = await RerankSelector(scorer).select(asked(*POOL))
        again = await RerankSelector(scorer).select(asked(*POOL))
        scores = await scorer.score(asked(*POOL).user_message, [one.preview for one in POOL])
    finally:
        await scorer.close()
    assert first == again
    assert len(set(scores)) > 2, "a model that says the same of everything tests nothing"
    best = sorted(range(len(POOL)), key=lambda place: -round(scores[place], 5))[:5]
    chosen = [scores[int(entry_id[1:])] for entry_id in first.entry_ids]
    assert chosen == pytest.approx([scores[place] for place in best], abs=1e-4)
    assert first.model == "tiny"
    assert first.why[first.entry_ids[0]].startswith("score ")


async def test_what_scores_too_low_is_left_out_and_an_empty_pool_asks_nobody(folder) -> None:
    scorer = await run_sync(open_reranker, folder)
    try:
        assert (await RerankSelector(scorer, least=1e9).select(asked(*POOL))).entry_ids == ()
        assert (await RerankSelector(scorer).select(asked())).entry_ids == ()
    finally:
        await scorer.close()


async def test_the_loop_goes_on_while_it_reads(folder) -> None:
    scorer = await run_sync(open_reranker, folder)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        await RerankSelector(scorer).select(asked(*POOL))
        group.cancel_scope.cancel()
    await scorer.close()
    assert ticks > 1


async def test_the_configuration_names_it_and_a_model_that_cannot_be_loaded_is_a_selector_error(
    tmp_path, folder
) -> None:
    selector, models = await run_sync(open_selector, SelectorConfig(reranker=folder))
    assert selector is not None
    assert selector.name == "rerank"
    assert len((await selector.select(asked(*POOL))).entry_ids) == 5
    for model in models:
        await model.close()
    with pytest.raises(SelectorError, match="was closed"):
        await selector.select(asked(*POOL))
    await anyio.Path(tmp_path / "config.json").write_text(json.dumps({"model_type": "nothing"}), encoding="utf-8")
    broken = await run_sync(open_reranker, str(tmp_path))
    with pytest.raises(ModelError, match="cannot be loaded"):
        await broken.warm()
    with pytest.raises(ConfigError, match="no reranker in"):
        await run_sync(open_reranker, str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="a model or a reranker"):
        SelectorConfig(model="openai/small", reranker=folder)


def test_the_command_line_takes_one_and_says_what_is_wrong_with_it(tmp_path, folder, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    world = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
    asked_ = ("--world", world, "--session", "s", "--embedder", "none", "--deadline-ms", 60_000, "--input", "The key?")

    def weave(*more: object) -> Result:
        return CliRunner().invoke(app, ["play", "weave", *map(str, (*asked_, *more))])

    (tmp_path / "settings.yaml").write_text(f"selector:\n  reranker: {folder}\n", encoding="utf-8")
    for more in (("--reranker", folder), ("--config", "settings.yaml", "--lease", 3, "--session", "t")):
        done = weave("--json", *more)
        assert done.exit_code == 0, done.output
        stream = json.loads(done.stdout)["report"]["stream_b"]
        assert (stream["path"], stream["model"]) == ("selected", "tiny")
    told = CliRunner().invoke(app, ["play", "explain", "--session", "t"]).stdout
    assert "stream B: selected · model tiny" in told
    for more, said in (
        (("--reranker", "nowhere"), "no reranker in 'nowhere'"),
        (("--reranker", folder, "--model", "openai/small"), "a model or a reranker"),
    ):
        done = weave(*more)
        assert done.exit_code != 0
        assert said in done.output
        assert "Traceback" not in done.output


async def test_a_reranker_that_cannot_be_loaded_is_named_in_the_receipt(tmp_path) -> None:
    folder = tmp_path / "reranker"
    folder.mkdir()
    (folder / "config.json").write_text("{}", encoding="utf-8")
    config = RuntimeConfig(selector=SelectorConfig(reranker=str(folder)), curation=CurationConfig(deadline_ms=60_000))
    async with open_runtime(tmp_path, world="examples/whispering_forest/zh", embedder="none", config=config) as runtime:
        await runtime.ensure_session("s")
        turn = await runtime.engine.prepare_turn("s", "那把钥匙是不是开启神庙的?")
    (detail,) = (each.detail for each in turn.report.degradations if each.code == "selection_failed")
    assert "cannot be loaded" in detail
