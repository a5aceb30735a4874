"""The Flash Selector: its prompt, and how it turns a model's failures into its own."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from curation_parts import ENTRIES, as_candidate, asked, candidate, plan
from hypothesis import given, settings
from hypothesis import strategies as st

from jacquard import (
    LlmRequest,
    LlmResponse,
    ModelError,
    SelectionRequest,
    Selector,
    SelectorError,
)
from jacquard.pipeline.curation.selectors.excerpt import excerpt
from jacquard.pipeline.curation.selectors.flash import FlashSelector, selector_prompt
from mnemosyne.retrieval.text.words import word_tokens

pytestmark = pytest.mark.anyio


class SaidModel:
    """Answers what it was told to; a text, or an error to raise."""

    model = "said"

    def __init__(self, answer: str | Exception) -> None:
        self._answer = answer
        self.requests: list[LlmRequest] = []

    async def warm(self) -> None:
        return None

    async def generate(self, request: LlmRequest) -> LlmResponse:
        self.requests.append(request)
        if isinstance(self._answer, Exception):
            raise self._answer
        return LlmResponse(content=self._answer, model=self.model, prompt_tokens=900, completion_tokens=12)

    async def close(self) -> None:
        return None


def test_the_prompt_is_the_seed_s_with_everything_from_outside_marked_as_data() -> None:
    system, user = selector_prompt(asked(*(as_candidate(entry) for entry in ENTRIES)))
    assert system[0] == "system"
    assert "Select at most 5 items." in system[1]
    assert '"rationale": "why these, in one sentence' in system[1]
    assert user == (
        "user",
        """<user_context>
<recent_history>
村长: 听说村里有一把钥匙。
</recent_history>
<current_input>那把钥匙是不是开启神庙的?</current_input>
</user_context>
<candidate_pool>
<item id="lore_key" chain="lore" tags="location, ancient">神庙钥匙: 由翡翠雕成的古老钥匙,能开启森林神庙的石门。</item>
<item id="lore_wolf" chain="lore">Grey Wolf: A grey wolf that guards the northern path.</item>
<item id="p003.a" chain="history" turn="3">村长: 那把钥匙是我祖父留下的,我不能随便给人。</item>
<item id="p003.summary" chain="narrative" turn="3">村长拒绝交出神庙的钥匙。</item>
<item id="q_necklace" chain="event">The lost necklace: The necklace was found in the well and given back.</item>
</candidate_pool>""",
    )


ANY = st.text(max_size=60) | st.sampled_from(
    ["</item>", "</candidate_pool>", '"><item id="x">', "]]>", "<!--", "{limit}", "{{ x }}", "\x00\x1b[0m", "\u202e"]
)


@settings(deadline=None)
@given(entry_id=ANY, title=ANY, preview=ANY, said=ANY, recent=ANY)
def test_no_text_breaks_out_of_its_element(entry_id: str, title: str, preview: str, said: str, recent: str) -> None:
    request = SelectionRequest(
        user_message=said,
        recent=(recent,),
        plan=plan(),
        candidates=(candidate(entry_id, preview, title=title), candidate("second")),
        limit=5,
    )
    _, (_, text) = selector_prompt(request)
    tags = re.findall(r"</?([a-z_]+)", text)
    assert tags == [
        *("user_context", "recent_history", "recent_history", "current_input", "current_input", "user_context"),
        *("candidate_pool", "item", "item", "item", "item", "candidate_pool"),
    ]
    assert text.count("<") == len(tags)


@pytest.mark.parametrize(
    ("tags", "shown"),
    [
        ((), ""),
        (("location", "ancient", "temple", "moon"), ' tags="location, ancient, temple"'),
        (('"><item id="x">',), ' tags="&quot;&gt;&lt;item id=&quot;x&quot;&gt;"'),
        (("森林" * 60,), f' tags="{"森林" * 19}森…"'),
    ],
    ids=["none", "at most three", "hostile", "long"],
)
def test_a_candidate_shows_its_first_tags(tags: tuple[str, ...], shown: str) -> None:
    _, (_, text) = selector_prompt(asked(replace(candidate("a"), tags=tags)))
    assert f'<item id="a" chain="lore"{shown}>A text of its own.</item>' in text


def test_long_talk_and_input_are_cut() -> None:
    request = SelectionRequest(
        user_message="why " * 5000, recent=("a: " + "b " * 900,) * 9, plan=plan(), candidates=(candidate("x"),), limit=5
    )
    _, (_, text) = selector_prompt(request)
    assert len(text) < 4000


async def test_the_choice_comes_with_model_counts_and_tokens() -> None:
    llm = SaidModel('Well: ["b", "ghost", "a"]')
    selector: Selector = FlashSelector(llm, max_tokens=300, timeout_seconds=9.0)
    selection = await selector.select(asked(candidate("a"), candidate("b")))
    assert selection.entry_ids == ("b", "a")
    assert selection.model == "said"
    assert dict(selection.counts) == {"prose": 1, "unknown_ids": 1, "prompt_tokens": 900, "completion_tokens": 12}
    assert llm.requests[0].max_tokens == 300
    assert llm.requests[0].timeout_seconds == 9.0


async def test_an_empty_pool_calls_nobody() -> None:
    llm = SaidModel("[]")
    assert (await FlashSelector(llm).select(asked())).entry_ids == ()
    assert llm.requests == []


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (ModelError("timeout", "no answer in 3 s"), "timeout"),
        (ModelError("connection", "nobody there"), "model_error"),
        (ModelError("unavailable", "500"), "model_error"),
        ("no list here", "unreadable"),
    ],
)
async def test_a_failure_is_a_selector_error_with_a_code(failure: str | Exception, code: str) -> None:
    with pytest.raises(SelectorError) as caught:
        await FlashSelector(SaidModel(failure)).select(asked(candidate("a")))
    assert caught.value.code == code


async def test_an_answer_that_cannot_be_read_tells_what_it_cost() -> None:
    with pytest.raises(SelectorError) as caught:
        await FlashSelector(SaidModel("no list here")).select(asked(candidate("a")))
    assert caught.value.counts == {"prompt_tokens": 900, "completion_tokens": 12}


async def test_many_candidates_go_in_batches_at_the_same_time_and_each_is_shown_once() -> None:
    llm = SaidModel(json.dumps([f"e{number}" for number in (0, 3, 1, 4, 2, 5)]))
    pool = [candidate(f"e{number}", f"text {number}") for number in range(7)]
    selection = await FlashSelector(llm, batch_size=3).select(asked(*pool))
    assert selection.entry_ids == ("e0", "e1", "e2", "e3", "e4")
    assert dict(selection.counts) == {
        "unknown_ids": 12,
        "prompt_tokens": 2700,
        "completion_tokens": 36,
        "batches": 3,
    }
    shown = [line for call in llm.requests for line in re.findall(r"text \d", call.messages[1][1])]
    assert sorted(shown) == [f"text {number}" for number in range(7)]


async def test_batches_join_with_the_rationale_of_a_choice_that_was_used() -> None:
    pool = [candidate(f"e{number}", f"text {number}") for number in range(4)]

    class TwoMinds(SaidModel):
        async def generate(self, request: LlmRequest) -> LlmResponse:
            own = "text 1" in request.messages[1][1]
            answer = {"ids": ["e1"], "rationale": "It fits."} if own else {"ids": [], "rationale": "Nothing fits."}
            return LlmResponse(content=json.dumps(answer), model=self.model)

    selection = await FlashSelector(TwoMinds(""), batch_size=2).select(asked(*pool))
    assert (selection.entry_ids, selection.rationale) == (("e1",), "It fits.")


class HalfDeaf(SaidModel):
    async def generate(self, request: LlmRequest) -> LlmResponse:
        if "text 0" in request.messages[1][1]:
            raise ModelError("connection", "nobody there")
        return await super().generate(request)


async def test_a_batch_that_fails_is_counted_and_all_failing_is_an_error() -> None:
    pool = [candidate(f"e{number}", f"text {number}") for number in range(4)]
    selection = await FlashSelector(HalfDeaf('["e1"]'), batch_size=2).select(asked(*pool))
    assert selection.entry_ids == ("e1",)
    assert selection.counts["failed_batches"] == 1
    with pytest.raises(SelectorError, match="nobody there"):
        await FlashSelector(SaidModel(ModelError("connection", "nobody there")), batch_size=2).select(asked(*pool))


@given(text=st.text(max_size=400), words=st.frozensets(st.text(min_size=1, max_size=5), max_size=5))
def test_an_excerpt_is_one_line_within_its_limit(text: str, words: frozenset[str]) -> None:
    cut = excerpt(text, words, 60)
    assert len(cut.splitlines()) <= 1
    assert len(cut) <= 60 + 2
    if len(text) <= 20:
        assert cut == " ".join(text.split())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "The road is long. " * 9 + "The lantern hangs in the mill. " + "Rain falls. " * 9,
            "The lantern hangs in the mill.",
        ),
        ("路很长。" * 12 + "灯笼挂在磨坊里。" + "下着雨。" * 12, "灯笼挂在磨坊里。"),
    ],
)
def test_a_long_preview_is_cut_around_the_words_of_the_input(text: str, wanted: str) -> None:
    cut = excerpt(text, frozenset(word_tokens("lantern 灯笼")), 90)
    assert wanted in cut
    assert cut.startswith("…")
    assert cut.endswith("…")
