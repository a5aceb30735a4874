"""When a late result may serve another turn."""

from __future__ import annotations

from dataclasses import replace

import pytest
from curation_parts import candidate, head, plan
from hypothesis import given, settings
from hypothesis import strategies as st

from jacquard import Selection
from jacquard.core.receipt import CurationPath
from jacquard.pipeline.curation.prefetch import build_prefetch, build_prefetched_curation, is_keepable, scene_matches
from jacquard.pipeline.curation.stream import Curation
from mnemosyne import (
    Recall,
)
from mnemosyne.schema.record import Prefetch
from mnemosyne.schema.session import BranchSpan

NOTHING: frozenset[str] = frozenset()
LATE = Curation(
    path=CurationPath.SELECTED,
    code="selected",
    reason="small chose 2 of 3.",
    recall=Recall(candidates=(candidate("a", title="Key"), candidate("b", depth=4), candidate("c"))),
    selection=Selection(entry_ids=("b", "a"), why={"a": "It is the key."}, rationale="About the key.", model="small"),
)


def kept(
    keywords: tuple[str, ...] = ("temple key",),
    *,
    quest: str | None = "q_temple",
    branch_id: str = "main",
    depth: int = 10,
    text: str = "Where is the temple key?",
) -> Prefetch:
    return build_prefetch(LATE, plan(keywords, quest=quest), "t10", branch_id, depth, text)


def test_a_matching_scene_uses_it() -> None:
    fits, why = scene_matches(kept(), plan(("Temple  Key", "elder")), head(depth=10), "And who has it?", shown=NOTHING)
    assert fits
    assert "Temple  Key" in why


@pytest.mark.parametrize(
    ("prefetch", "words"),
    [
        (kept(depth=9), "made for turn 9"),
        (kept(depth=12), "made for turn 12"),
        (kept(branch_id="other"), "another line"),
        (kept(quest="q_wolf"), "focus moved"),
        (kept(("grey wolf",)), "other keywords"),
        (kept(()), "other keywords"),
        (replace(kept(), value={**kept().value, "viewer": "chief"}), "another viewer"),
    ],
)
def test_another_scene_does_not(prefetch: Prefetch, words: str) -> None:
    fits, why = scene_matches(prefetch, plan(("temple key",)), head(depth=10), "The key?", shown=NOTHING)
    assert not fits
    assert words in why


def test_the_same_turn_asked_again_may_use_it_but_only_on_its_own_branch() -> None:
    assert scene_matches(kept(depth=11), plan(("temple key",)), head(depth=10), "x", shown=NOTHING)[0]
    forked = head("fork", 10, BranchSpan(branch_id="main", upto_depth=10))
    assert not scene_matches(kept(depth=11), plan(("temple key",)), forked, "x", shown=NOTHING)[0]


def test_a_fork_after_the_turn_may_use_it_and_one_before_it_may_not() -> None:
    after = head("fork", 10, BranchSpan(branch_id="main", upto_depth=10))
    assert scene_matches(kept(depth=10), plan(("temple key",)), after, "x", shown=NOTHING)[0]
    before = head("fork", 10, BranchSpan(branch_id="main", upto_depth=9))
    assert not scene_matches(kept(depth=10), plan(("temple key",)), before, "x", shown=NOTHING)[0]


@pytest.mark.parametrize(
    ("then", "now", "fits"),
    [
        ("Where did the elder hide the lantern?", "Where did the elder hide it, the lantern?", True),
        ("Where did the elder hide the lantern?", "Did the wolves come back to the mill?", False),
        ("村长把灯笼藏在哪里", "村长把灯笼藏在哪里了?", True),
        ("村长把灯笼藏在哪里", "狼群回到磨坊了吗?", False),
        ("Where did the elder hide the lantern?", "And?", False),
        ("", "", False),
    ],
)
def test_without_keywords_the_words_decide(then: str, now: str, fits: bool) -> None:
    prefetch = kept((), text=then)
    assert scene_matches(prefetch, plan(()), head(depth=10), now, shown=NOTHING)[0] is fits


def test_what_is_shown_already_or_hidden_now_is_left_out() -> None:
    prefetch = kept()
    one = frozenset({"b"})
    assert scene_matches(prefetch, plan(("temple key",)), head(depth=10), "x", shown=one)[0]
    used = build_prefetched_curation(prefetch, "why", shown=one)
    assert [c.entry_id for c in used.chosen] == ["a"]
    assert used.selection.entry_ids == ("a",)
    both = frozenset({"a", "b"})
    assert not scene_matches(prefetch, plan(("temple key",)), head(depth=10), "x", shown=both)[0]


def test_a_kept_result_comes_back_as_it_was() -> None:
    used = build_prefetched_curation(kept(), "why", shown=NOTHING)
    assert used.path is CurationPath.PREFETCHED
    assert used.chosen == LATE.chosen
    assert used.selection.rationale == "", "it was said of another input, maybe of what is hidden by now"
    assert dict(used.selection.why) == {}
    assert used.model == "small"


def test_only_a_selector_s_own_choice_that_is_not_empty_is_kept() -> None:
    assert is_keepable(LATE)
    assert not is_keepable(replace(LATE, selection=Selection(entry_ids=())))
    assert not is_keepable(replace(LATE, path=CurationPath.FALLBACK))
    assert not is_keepable(Curation.skipped("internal", "It broke."))


WORDS = st.lists(st.sampled_from(["temple key", "elder", "神庙", "wolf", ""]), max_size=3).map(tuple)


@settings(deadline=None)
@given(
    then=WORDS,
    now=WORDS,
    quests=st.tuples(*[st.sampled_from(["q1", "q2", None])] * 2),
    depths=st.tuples(*[st.integers(0, 4)] * 2),
    branch=st.sampled_from(["main", "fork"]),
    upto=st.integers(0, 4),
    texts=st.tuples(*[st.text(max_size=20) | st.sampled_from(["the old mill", "神庙的钥匙"])] * 2),
    shown=st.frozensets(st.sampled_from(["a", "b"])),
)
def test_whatever_matches_keeps_every_condition(
    then: tuple[str, ...],
    now: tuple[str, ...],
    quests: tuple[str | None, str | None],
    depths: tuple[int, int],
    branch: str,
    upto: int,
    texts: tuple[str, str],
    shown: frozenset[str],
) -> None:
    prefetch = kept(then, quest=quests[0], depth=depths[0], text=texts[0])
    here = head(branch, depths[1], BranchSpan(branch_id="main", upto_depth=min(upto, depths[1])))
    fits, why = scene_matches(prefetch, plan(now, quest=quests[1]), here, texts[1], shown=shown)
    assert why
    if not fits:
        return
    assert quests[0] == quests[1]
    assert depths[0] - depths[1] in (0, 1)
    assert branch == "main" or (depths[0] <= upto and depths[0] == depths[1])
    assert {w.casefold() for w in then if w} & {w.casefold() for w in now if w} or not any(then + now)
    assert shown != {"a", "b"}
    assert build_prefetched_curation(prefetch, why, shown=shown).chosen
