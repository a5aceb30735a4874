"""The Heuristic Fallback: order, folding, focus and chains."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest
from curation_parts import asked, candidate, plan
from hypothesis import given, settings
from hypothesis import strategies as st

from jacquard import Selection, SelectionRequest, Selector
from jacquard.pipeline.curation.selectors.heuristic import HeuristicSelector
from mnemosyne import Candidate, Chain


def choose(request: SelectionRequest) -> Selection:
    selector: Selector = HeuristicSelector()

    async def run() -> Selection:
        return await selector.select(request)

    return anyio.run(run)


def test_the_best_scores_come_first() -> None:
    texts = ("A wolf howls at night.", "The mill burned down.", "Rivers run south.", "Bread is cheap.")
    pool = [candidate(f"c{i}", text, score=1.0 - i / 10) for i, text in enumerate(texts)]
    assert choose(asked(*pool, limit=3)).entry_ids == ("c0", "c1", "c2")


def test_near_duplicates_are_folded_into_the_better_one() -> None:
    pool = (
        candidate("best", "The old mill by the river burned down in the night of the storm.", 0.9),
        candidate("same", "The old mill by the river burned down in the night of the great storm.", 0.8),
        candidate("other", "The miller's daughter left for the city.", 0.5),
    )
    selection = choose(asked(*pool, limit=3))
    assert selection.entry_ids == ("best", "other")
    assert dict(selection.folded) == {"same": "best"}
    assert dict(selection.counts) == {"folded": 1}


def test_chinese_near_duplicates_are_folded_alike() -> None:
    pool = (
        candidate("best", "村长拒绝交出森林神庙的钥匙,说那是祖父留下的。", 0.9),
        candidate("same", "村长拒绝交出森林神庙的钥匙,说它是祖父留下的。", 0.8),
    )
    assert dict(choose(asked(*pool)).folded) == {"same": "best"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Mara paid 5 coins to the old ferryman at dusk.", "Mara paid 7 coins to the old ferryman at dusk."),
        ("Mara paid five coins to the old ferryman at dusk.", "Mara paid nine coins to the old ferryman at dusk."),
        ("玛拉黄昏时付给老船夫五枚金币,然后过了河。", "玛拉黄昏时付给老船夫七枚金币,然后过了河。"),
        ("Anna gave the ring to Bob.", "Bob gave the ring to Anna."),
        ("🗡", "🛡"),
        ("Mara paid the old ferryman at dusk and crossed.", "Tara paid the old ferryman at dusk and crossed."),
        ("At dusk the old ferryman took Mara across.", "At dusk the old ferryman took Tara across."),
        ("The elder did give him the key of the old temple.", "The elder did not give him the key of the old temple."),
        ("村长把神庙的钥匙给了他,又请他喝茶。", "村长没把神庙的钥匙给他,又请他喝茶。"),
    ],
)
def test_texts_that_say_different_things_are_not_folded(one: str, other: str) -> None:
    selection = choose(asked(candidate("a", one, 0.9), candidate("b", other, 0.8)))
    assert selection.entry_ids == ("a", "b")
    assert dict(selection.folded) == {}


def test_what_the_plan_is_about_moves_up_a_little() -> None:
    near = (
        candidate("first", "Rain fell.", 1.0),
        candidate("key", "It opens the gate.", 0.95, title="The Temple Key"),
    )
    assert choose(asked(*near, plan_=plan(("temple key",)))).entry_ids[0] == "key"
    by_entity = (candidate("first", "Rain fell.", 1.0), candidate("e", "It opens.", 0.95, entities=("temple_key",)))
    assert choose(asked(*by_entity, plan_=plan(entities=("temple_key",)))).entry_ids[0] == "e"
    far = (candidate("first", "Rain fell.", 1.0), candidate("key", "It opens.", 0.5, title="The Temple Key"))
    assert choose(asked(*far, plan_=plan(("temple key",)))).entry_ids[0] == "first"


def test_lore_whose_subject_the_input_names_moves_up_most() -> None:
    pool = (
        candidate("said", "He spoke of it.", 1.0, chain=Chain.HISTORY),
        candidate("about", "It opens the gate.", 0.95, title="How the Temple Key was made"),
        candidate("subject", "Carved from jade.", 0.92, title="Temple Key"),
    )
    assert choose(asked(*pool, plan_=plan(("temple key",)))).entry_ids == ("subject", "said", "about")


def test_what_one_turn_said_is_not_told_twice_while_others_are_nearly_as_good() -> None:
    pool = (
        replace(candidate("said", "He refused.", 1.0, chain=Chain.HISTORY), turn_id="p3"),
        replace(candidate("summary", "The elder said no.", 0.95, chain=Chain.NARRATIVE), turn_id="p3"),
        replace(candidate("other", "We left the village.", 0.94, chain=Chain.HISTORY), turn_id="p4"),
    )
    assert choose(asked(*pool, limit=2)).entry_ids == ("said", "other")


def test_a_chain_that_the_plan_cares_less_for_gives_way_among_equals() -> None:
    pool = (
        candidate("l1", "Rain fell.", 1.0, chain=Chain.LORE),
        candidate("l2", "Snow melted.", 0.99, chain=Chain.LORE),
        candidate("n1", "We met the elder.", 0.98, chain=Chain.NARRATIVE),
    )
    weights = plan(narrative=0.8, lore=0.2, event=0.5)
    assert choose(asked(*pool, limit=2, plan_=weights)).entry_ids == ("l1", "n1")
    one_chain = pool[:2]
    assert choose(asked(*one_chain, limit=2, plan_=weights)).entry_ids == ("l1", "l2")


def test_every_thing_of_the_input_is_told_of_if_anything_recalled_is_about_it() -> None:
    pool = (
        candidate("key1", "It opens the gate.", 1.0, entities=("temple_key",)),
        candidate("key2", "Carved from jade.", 0.98, entities=("temple_key",)),
        candidate("key3", "Nobody has seen it.", 0.96, entities=("temple_key", "elder")),
        candidate("wolf", "It guards the path.", 0.8, entities=("wolf",)),
    )
    both = plan(entities=("temple_key", "wolf"))
    assert set(choose(asked(*pool, limit=2, plan_=both)).entry_ids) == {"key1", "wolf"}
    far = replace(pool[3], score=0.3)
    assert "wolf" not in choose(asked(*pool[:3], far, limit=2, plan_=both)).entry_ids


def test_candidates_about_different_things_are_not_folded() -> None:
    text = "It was found in the well and given back to the old woman by the mill."
    one = candidate("a", text, 0.9, entities=("necklace",))
    other = candidate("b", text, 0.8, entities=("ring",))
    assert dict(choose(asked(one, other)).folded) == {}
    assert dict(choose(asked(one, replace(other, entities=("necklace",)))).folded) == {"b": "a"}


WEIGHTS = st.tuples(*[st.sampled_from([0.1, 0.3, 0.5, 0.8, 0.9, 1.0])] * 3)


@settings(deadline=None)
@given(weights=WEIGHTS, limit=st.integers(1, 9))
def test_among_equals_the_places_go_to_the_chains_as_the_plan_weighs_them(
    weights: tuple[float, float, float], limit: int
) -> None:
    chains = {"narrative": Chain.NARRATIVE, "lore": Chain.LORE, "event": Chain.EVENT}
    pool = [
        candidate(f"{name}{number}", f"{name} {'abcdefghi'[number] * 3}", 1.0, chain=chain)
        for number in range(9)
        for name, chain in chains.items()
    ]
    given_ = dict(zip(chains, weights, strict=True))
    chosen = choose(asked(*pool, limit=limit, plan_=plan(**given_))).entry_ids
    for name, weight in given_.items():
        quota = limit * weight / sum(weights)
        assert abs(sum(entry_id.startswith(name) for entry_id in chosen) - quota) < 1.0


CANDIDATES = st.builds(
    candidate,
    entry_id=st.uuids().map(str),
    preview=st.text(max_size=40) | st.sampled_from(["The old mill burned.", "The old mill burned!", "神庙的钥匙", ""]),
    score=st.floats(-1, 2, allow_nan=False) | st.just(0.0),
    chain=st.sampled_from([Chain.LORE, Chain.EVENT, Chain.HISTORY, Chain.NARRATIVE]),
    title=st.text(max_size=10),
)


@settings(deadline=None)
@given(pool=st.lists(CANDIDATES, max_size=12, unique_by=lambda c: c.entry_id), limit=st.integers(0, 6))
def test_the_contract_holds_for_any_pool(pool: list[Candidate], limit: int) -> None:
    request = asked(*pool, limit=limit, plan_=plan(("mill", "")))
    selection = choose(request)
    known = {one.entry_id for one in pool}
    assert len(selection.entry_ids) <= limit
    assert len(set(selection.entry_ids)) == len(selection.entry_ids)
    assert set(selection.entry_ids) <= known
    assert not set(selection.folded) & set(selection.entry_ids)
    assert set(selection.folded.values()) <= set(selection.entry_ids)
    if len(selection.entry_ids) < limit:
        assert set(selection.entry_ids) | set(selection.folded) == known
    assert choose(request) == selection


@settings(deadline=None)
@given(pool=st.lists(CANDIDATES, max_size=10, unique_by=lambda c: c.entry_id), power=st.integers(-9, 9))
def test_rescaling_all_scores_changes_nothing(pool: list[Candidate], power: int) -> None:
    exact = [replace(one, score=0.01 + abs(one.score)) for one in pool]
    scaled = [replace(one, score=one.score * 2.0**power) for one in exact]
    assert choose(asked(*exact, limit=3)).entry_ids == choose(asked(*scaled, limit=3)).entry_ids
