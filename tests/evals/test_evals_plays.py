"""Plays: scripts are checked as a whole, prompts are scored against their truth, and the plays of the gate hold their figures."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from anyio import to_thread
from typer.testing import CliRunner

from evals.app import app
from evals.errors import DatasetError
from evals.play.gate import GATE_FILE, find_regressions, kept_figures, read_plays_gate
from evals.play.host import play_script
from evals.play.pages import play_section
from evals.play.scores.figures import describe_faults, play_json, sum_up
from evals.play.scores.prompt import score_play
from evals.play.scores.receipts import NamedIds, order_of, read_named_ids
from evals.play.script.reading import PLAYS_FOLDER, find_plays, read_play
from evals.play.session import Item, ItemKind
from jacquard.authoring.replay.turn_page import render_turn_page

pytestmark = pytest.mark.anyio

KEPT = read_plays_gate(PLAYS_FOLDER / GATE_FILE)
SCRIPT = """\
name: tale
locale: en
world: world
user: Ada
budget: 3000
facts:
  coins: {shown: ["coins: 3"], wrong: ['/coins: [^3]/']}
turns:
  - input: The lighthouse keeper coughs. Do we know why?
    reply: <content>She breathed lamp smoke for thirty winters, Maren says.</content>
    about: [cough]
    relevant: []
  - input: I pay the ferryman one coin.
    reply: |
      <content>He bites it, and nods.</content>
      <state_update>[["SUB", "hero.coins", 1]]</state_update>
    facts:
      coins: {shown: ["coins: 2"], wrong: ['/coins: [^2]/']}
    about: [ferry]
  - input: Who else is on the jetty tonight, besides the two of us?
    fails: timeout
  - input: We wait.
    reply: <content>The tide turns.</content>
  - input: Is the tide table any use?
    reply: <content>Low water at 16:20.</content>
    ask: {answers: ["16:20"], from: 5}
    relevant: [tide]
  - input: I give the coin back to myself, so to say.
    reply: <content>Nobody laughs.</content>
  - input: Why did the keeper cough?
    reply: <content>Lamp smoke.</content>
    ask: {answers: [lamp smoke], from: 1}
    relevant: [cough]
events:
  - {before: 5, tool_result: {name: tides, text: "Low water 16:20, high water 22:35.", about: [tide]}}
  - {before: 6, fork: again, at: 1}
  - {before: 7, switch: main}
"""
WORLD = """\
id: tale
title: A short tale
locale: en
instruction: You tell a tale.
state:
  hero: {id: hero, coins: 3}
"""


@pytest.fixture
def tale(tmp_path):
    """Return a function that writes the play, with replacements, and gives its folder."""

    def write(*changes):
        text = SCRIPT
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        folder = tmp_path / "tale"
        (folder / "world").mkdir(parents=True, exist_ok=True)
        (folder / "play.yaml").write_text(text, encoding="utf-8")
        (folder / "world" / "world.yaml").write_text(WORLD, encoding="utf-8")
        return folder

    return write


async def play(folder, embedder="none"):
    script = await to_thread.run_sync(read_play, folder)
    return script, score_play(script, await play_script(script, embedder=embedder))


@pytest.mark.parametrize("name", KEPT)
async def test_no_figure_of_a_short_play_is_worse_than_the_kept_one(name):
    _, scored = await play(PLAYS_FOLDER / name, embedder="auto")
    assert find_regressions(name, KEPT[name], sum_up(scored)) == [], describe_faults(scored)


def test_every_play_of_the_project_can_be_read():
    scripts = [read_play(folder) for folder in find_plays()]
    assert {"forest_short_en", "forest_short_zh"} <= {script.name for script in scripts}


async def test_a_play_counts_the_key_facts_that_the_prompt_of_turn_thirty_contains(tale):
    waiting = "  - input: We wait.\n    reply: <content>The tide turns.</content>\n"
    keys = "    key_facts: {smoke: [thirty winters], whale: [a whale, /whales?/]}\n    about: [cough]"
    _, scored = await play(tale(("    about: [cough]", keys), ("events:", waiting * 23 + "events:")))
    assert [each.score.key_missing for each in scored if each.score is not None and each.score.key_facts] == [
        ("whale",)
    ]
    assert (sum_up(scored).key_told, sum_up(scored).key_facts) == (1, 2)
    assert "turn 30: key facts that are not told: whale" in describe_faults(scored)


async def test_a_play_tells_facts_questions_and_losses(tale):
    _, scored = await play(tale())
    figures = sum_up(scored)
    assert (figures.turns, figures.failed, figures.mismatched, figures.missing, figures.wrong) == (7, 0, 0, 0, 0)
    assert (figures.asked, figures.answered) == (2, 2)
    assert scored[2].played.before.facts_in_force()["coins"].shown[0].text == "coins: 2"
    # On the branch from the end of turn 1 the coin was never paid.
    assert scored[5].played.before.branch == "again"
    assert scored[5].played.before.facts_in_force()["coins"].shown[0].text == "coins: 3"
    assert [step.number for step in scored[6].played.before.steps] == [1, 2, 3, 4, 5, 5]


async def test_a_wrong_and_a_missing_fact_are_told_with_what_stands_in_the_prompt(tale):
    _, scored = await play(
        tale(
            (
                "coins: {shown: [\"coins: 2\"], wrong: ['/coins: [^2]/']}",
                "coins: {shown: [\"coins: 9\"], wrong: ['coins: 2']}",
            )
        )
    )
    score = scored[2].score
    assert score.missing == ("coins",)
    assert [(wrong.fact, wrong.text) for wrong in score.wrong] == [("coins", "coins: 2")]
    assert "turn 3: coins is missing" in describe_faults(scored)


async def test_the_same_script_gives_the_same_figures_and_prompts(tale):
    folder = tale()
    first, second = await play(folder), await play(folder)
    assert play_json(*first) == play_json(*second)
    prompts = [[each.played.prepared.text for each in scored] for _, scored in (first, second)]
    assert prompts[0] == prompts[1]


async def test_what_the_script_and_the_engine_see_otherwise_is_told(tale):
    _, scored = await play(tale(("    reply: <content>The tide turns.</content>\n", "")))
    assert "the script has no reply" in scored[3].played.fault
    assert sum_up(scored).mismatched == 1


async def test_a_prompt_that_does_not_fit_is_a_turn_without_a_prompt(tale):
    _, scored = await play(tale(("budget: 3000", "budget: 100")))
    figures = sum_up(scored)
    assert (figures.prompts, figures.failed, figures.asked, figures.answered) == (0, 7, 2, 0)
    assert "BudgetExceededError" in scored[0].played.error


async def test_the_turn_after_an_edit_is_the_edited_one(tale):
    edited = (
        "  - {before: 6, fork: again, at: 1}",
        '  - {before: 6, edit: {turn: 2, input: "I give the coin back to myself, so to say."}}',
    )
    _, scored = await play(tale(edited))
    assert len(scored) == 7
    assert scored[5].played.before.branch == "edit_6"
    assert [step.number for step in scored[5].played.before.steps] == [1]


async def test_an_edit_with_words_of_its_own_is_played_in_between(tale):
    edited = (
        "  - {before: 6, fork: again, at: 1}",
        "  - {before: 6, edit: {turn: 2, input: I keep my coin., reply: <content>Fine.</content>}}",
    )
    _, scored = await play(tale(edited))
    assert [each.played.turn.input for each in scored][5] == "I keep my coin."
    assert [step.number for step in scored[6].played.before.steps] == [1, 2]


def item(*ids, text="long enough to be told apart"):
    return Item(kind=ItemKind.MESSAGE, ids=ids, text=text, turn=1)


def test_a_receipt_names_ids_as_wholes_and_everything_in_a_range():
    items = [item(f"t{number}.u", f"t{number}") for number in range(1, 13)]
    order = order_of(items)
    named = NamedIds(texts="dropped t2.u; t3.summary was not selected\nt4.a", ranges=(("t6.u", "t8.u"),))
    assert [each.ids[1] for each in items if named.covers(each, order)] == ["t2", "t3", "t6", "t7", "t8"]


async def test_a_receipt_that_says_nothing_of_a_message_loses_it(tale):
    _, scored = await play(tale())
    report = scored[0].played.prepared.report
    missing = item("t9.u", "t9")
    assert not read_named_ids(report).covers(missing, order_of([missing]))
    decision = replace(report.decisions[0], reason="It leaves out t9.u, which is old.")
    assert read_named_ids(replace(report, decisions=(decision,))).covers(missing, order_of([missing]))
    decision = replace(report.decisions[0], reason="It stands for t8.u..t10.u.")
    order = order_of([item("t8.u"), missing, item("t10.u")])
    assert read_named_ids(replace(report, decisions=(decision,))).covers(missing, order)


@pytest.mark.parametrize(
    ("old", "new", "say"),
    [
        ("locale: en\nworld", "locale: fr\nworld", "play.yaml:2: locale: is 'fr'; write one of zh, en"),
        ("world: world", "world: wurld", "play.yaml:3: world: there is no world.yaml in"),
        ("name: tale\n", "name: tail\n", "play.yaml:1: name: is 'tail'; a play has the name of its folder, 'tale'"),
        (
            "fails: timeout",
            "fails: badly",
            "play.yaml:21: turn 3.fails: is 'badly'; write one of timeout, error, empty, cut_off",
        ),
        (
            "    fails: timeout",
            "    fails: timeout\n    reply: <content>No.</content>",
            "turn 3.reply: stands beside `fails: timeout`",
        ),
        ("relevant: [cough]", "relevent: [cough]", "turn 7.relevent: is not a key here; did you mean 'relevant'?"),
        (
            "answers: [lamp smoke], from: 1",
            "answers: [lamp smoke], from: 8",
            "turn 7.ask.from: is 8; write a whole number from 1 to 7",
        ),
        ("'/coins: [^3]/'", "'/coins: [^3/'", "facts.coins.wrong: '/coins: [^3/' is not a regular expression"),
        ("switch: main", "switch: mine", "event 3.switch: there is no branch 'mine' yet; open are again, main"),
        ("fork: again, at: 1", "fork: again, at: 6", "event 2.at: is 6; write a whole number from 0 to 5"),
        (
            "before: 5, tool_result",
            "before: 5, tool",
            "event 1: needs exactly one of tool_result, evidence, fork, switch, edit",
        ),
        (
            "    about: [cough]",
            "    key_facts: {smoke: []}",
            "turn 1.key_facts.smoke: is empty; write at least one text that states the fact",
        ),
        ("  - input: We wait.", "  - input: [We wait.]", "play.yaml:22: turn 4.input: is a list; write a text"),
    ],
)
def test_a_fault_of_a_script_says_where_it_is_and_what_to_do(tale, old, new, say):
    with pytest.raises(DatasetError) as raised:
        read_play(tale((old, new)))
    assert say in str(raised.value)


def test_all_faults_of_a_script_are_told_at_once(tale):
    with pytest.raises(DatasetError) as raised:
        read_play(tale(("fails: timeout", "fails: badly"), ("switch: main", "switch: mine")))
    assert len(str(raised.value).splitlines()) == 2


def test_figures_that_fall_are_named(tale):
    kept = {**dict.fromkeys(kept_figures(sum_up()), 0), "answered": 2}
    assert find_regressions("tale", kept, sum_up()) == ["tale: answered is 0; it was 2"]


def test_the_command_prints_a_table_and_writes_report_and_page(tale, tmp_path):
    report, page = tmp_path / "out.json", tmp_path / "out.html"
    words = ["play", str(tale()), "--embedder", "none", "--json", str(report), "--html", str(page)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "2/2" in done.output
    plain = json.loads(report.read_text(encoding="utf-8"))
    assert plain["plays"][0]["figures"] == plain["total"]
    assert plain["plays"][0]["turns"][4]["answered"] is True
    assert "The lighthouse keeper coughs." in page.read_text(encoding="utf-8")


def test_the_command_wants_one_kind_of_thing(tale):
    done = CliRunner().invoke(app, ["play", "--all", str(tale())])
    assert done.exit_code == 2
    unknown = CliRunner().invoke(app, ["play", "nothing"])
    assert unknown.exit_code == 1
    assert "Plays of the project: " in unknown.output
    assert "forest_short_en" in unknown.output


async def test_hostile_words_of_a_play_are_text_on_its_page(tale):
    words = "</pre></details><script>alert(1)</script><img src=x onerror=alert(2)>"
    script, scored = await play(tale(("We wait.", f"'{words}'"), ("The tide turns.", words)))
    page = await to_thread.run_sync(render_turn_page, words, [play_section(script, scored)])
    assert "<script" not in page
    assert "<img" not in page
    assert page.count("</html>") == 1
    assert "&lt;script&gt;" in page
