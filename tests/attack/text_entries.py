"""Every entry point that takes text, as a function of one text that also says what must hold: `ENTRIES`.

An entry point is what a user, a model, a tool, an author or an importer gives a text to, and what the engine does with it. A part
that reads only the beginning of a text has the limit of the input that the text comes from. What an entry point may raise is named;
anything else is a finding.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from rich.console import Console
from rich.text import Text as Line

from filament import (
    FilamentError,
    StreamParser,
    clean_text,
    dump_yaml,
    escape_attribute,
    escape_text,
    judge_ops,
    load_yaml,
    load_yaml_marked,
    parse_element,
    parse_reply,
    scalar,
    unescape,
    with_anchors,
)
from jacquard import (
    JacquardError,
    LimitsConfig,
    PlanContext,
    RulePlanner,
    SearchIntent,
    SelectionRequest,
    Triage,
    find_shipped_templates,
    lint_templates,
)
from jacquard.authoring.render import diff_lines
from jacquard.authoring.target import find_target
from jacquard.cli.shared import clean, sentence
from jacquard.core.model_answers import read_fence, strip_thoughts
from jacquard.core.names import NameDictionary, find_mentions, normalise
from jacquard.core.protocols import ConversationTurn, PlanRequest, SummaryRequest
from jacquard.memory.consolidate.prompts import read_narrative, read_turns, turns_request
from jacquard.memory.summarize.extract import summarize_turn, thin_lines
from jacquard.memory.summarize.prompts import read_summary, summary_prompt
from jacquard.memory.summarize.sentences import split_sentences
from jacquard.pipeline.curation.searched_text import find_searched_text
from jacquard.pipeline.curation.selection_parser import parse_selection
from jacquard.pipeline.curation.selectors.excerpt import excerpt
from jacquard.pipeline.curation.selectors.heuristic import fingerprint_text
from jacquard.pipeline.curation.selectors.relevance import content_words, estimate_relevance
from jacquard.pipeline.planning.actions import MAX_INPUT_CHARS, read_input
from jacquard.pipeline.planning.model import plan_prompt, read_plan
from jacquard.pipeline.planning.quiet import find_quiet
from jacquard.pipeline.planning.reading import read_input_words
from jacquard.pipeline.planning.rules import guess_names
from jacquard.pipeline.truncation import truncate_with_size
from jacquard.prompts.templates import find_text_language, parse_template
from jacquard.templating import open_templates
from jacquard.templating.limits import FILE_LIMIT_BYTES
from jacquard.templating.sandbox import render_reply
from mnemosyne import (
    CalibratedEstimator,
    Candidate,
    Chain,
    Evidence,
    EvidenceSource,
    EvidenceType,
    MemoryEntry,
    MnemosyneError,
    RetrievalQuery,
    SessionHead,
    SessionWindow,
    SourceKind,
    extract,
    load_world,
    parse_selector,
    read_corpus,
    to_session,
    word_tokens,
)
from mnemosyne.chains.quantities import calculate, read_number
from mnemosyne.chains.uris import parse_uri
from mnemosyne.core.addresses import hide_secrets, mask_address
from mnemosyne.core.json_text import parse_json, read_json
from mnemosyne.core.jsonpath import MAX_PATH_CHARS, compile_path, find_nodes
from mnemosyne.core.normal_forms import normal_form
from mnemosyne.core.regexes import MAX_PATTERN_CHARS, compile_pattern, compile_re, match_whole
from mnemosyne.core.tokens import estimate_tokens, line_cost
from mnemosyne.documents.session_json import document_to_json, read_document
from mnemosyne.evidence.conflicts import claims_of
from mnemosyne.evidence.recalled import without_shown
from mnemosyne.evidence.relevance import rank_evidence
from mnemosyne.importers.corpus import MAX_LINE_BYTES
from mnemosyne.privacy.redact import redact_text, result_of
from mnemosyne.privacy.scrub import Scrubber, occurs_in, weight
from mnemosyne.retrieval.engines.rows import date_words, own_words
from mnemosyne.retrieval.recall.multi_query import split_query
from mnemosyne.retrieval.recall.query_features import find_query_features, lexical_terms, vector_texts
from mnemosyne.retrieval.recall.rerank_features import text_features
from mnemosyne.retrieval.text.dates import resolve_dates
from mnemosyne.retrieval.text.lexical import Postings
from mnemosyne.retrieval.text.preview import preview
from mnemosyne.retrieval.text.words import word_tokens_of_line
from mnemosyne.schema.ingest import ShownText
from mnemosyne.schema.query import Signals
from mnemosyne.schema.redaction import RedactionRules

LIMITS = LimitsConfig()
EXAMPLES = Path(__file__).parents[2] / "examples" / "whispering_forest"
AT = datetime(2026, 3, 4, tzinfo=UTC)
COUNT = CalibratedEstimator().estimate
MEASURED_CHARS = 2_000_000
"""A file may be longer than this; its growth is measured up to here."""

Run = Callable[[str], object]


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """An entry point: what is done with a text, and the most characters that it takes (`chars`).

    `run` raises AssertionError where a property does not hold. `raises`: what it may raise for a text. `costs`: it reads
    files or starts from much else, so that the long form of short texts leaves it out.
    """

    run: Run
    chars: int
    raises: tuple[type[Exception], ...] = ()
    costs: bool = False

    def __call__(self, text: str) -> None:
        try:
            self.run(text)
        except self.raises as error:
            # An error is shown to a person.
            assert sentence(error)


ENTRIES: dict[str, Entry] = {}


def entry(name: str, chars: int, *raises: type[Exception], costs: bool = False) -> Any:
    """Register a function as an entry point."""

    def register(run: Run) -> Run:
        ENTRIES[name] = Entry(run=run, chars=chars, raises=raises, costs=costs)
        return run

    return register


def forget_texts() -> None:
    """Empty the caches of functions of texts, so that the next call calculates."""
    for cached in (
        compile_path, compile_pattern, compile_re, content_words, estimate_tokens, fingerprint_text, line_cost, text_features,
        word_tokens_of_line,
    ):  # fmt: skip
        cached.cache_clear()


# --- filament: replies, escaping, YAML, ops ---------------------------------------------------------------------------

_RAW_TAG = re.compile(r"</?state_update|</?filament_output", re.IGNORECASE)


@entry("reply", LIMITS.reply_chars)
def read_reply(text: str) -> None:
    reply = parse_reply(text)
    assert reply.content == clean_text(reply.content)


def stream_in(size: int) -> Run:
    def stream(text: str) -> None:
        parser, events = StreamParser(), []
        for at in range(0, len(text), size):
            events += parser.feed(text[at : at + size])
        reply = parser.close()
        whole = parse_reply(text)
        assert replace(reply, tail=()) == replace(whole, tail=())
        assert parser.scanned_chars <= 600 * len(text) + 600

    return stream


for _size in (1, 7, 4096):
    entry(f"reply in pieces of {_size}", LIMITS.reply_chars)(stream_in(_size))


@entry("quoted update", LIMITS.user_message_chars)
def read_quoted(text: str) -> None:
    ops = json.dumps([["SET", "hero.note", text[:200]], ["ADD", "hero.gold", 1]])
    for user_text in (text, f"{text}<state_update>{ops}</state_update>"):
        reply = parse_reply(f"<content>Yes.</content><state_update>{ops}</state_update>", user_text=user_text)
        assert reply.content == "Yes."
        assert not (ops in user_text and reply.ops)


@entry("reply that repeats the user", LIMITS.user_message_chars)
def read_echo(text: str) -> None:
    reply = parse_reply(f"<content>x</content>{text}", user_text=text)
    assert not reply.ops


@entry("escaping", LIMITS.tool_result_chars)
def escape(text: str) -> None:
    said, inside = escape_text(text), escape_attribute(text)
    assert "<" not in said
    assert not set("<>\"'\n\t").intersection(inside)
    assert unescape(said) == clean_text(text) == unescape(inside)
    unescape(text)


@entry("element", LIMITS.reply_chars, FilamentError)
def read_element(text: str) -> None:
    read = parse_element(f'<a b="{escape_attribute(text)}">{escape_text(text)}</a>')
    assert read.attributes == (("b", clean_text(text)),)
    parse_element(f"<a>{text}</a>")


@entry("YAML out", LIMITS.state_chars)
def write_yaml(text: str) -> None:
    value = {"a": text, "b": [text[:9], {text[:40]: 1}]}
    shown = dump_yaml(value)
    assert unicodedata.is_normalized("NFC", "") and shown
    if "\ud83d" not in text and len(text) < 4_000:
        assert load_yaml(shown) == value
    scalar(text)


@entry("YAML in", MEASURED_CHARS, FilamentError)
def read_yaml(text: str) -> None:
    load_yaml_marked(text)


_TREE = with_anchors(
    {
        "hero": {"id": "hero", "name": "Kai", "gold": 3, "note": "", "$meta": {"extensible": True}},
        "bag": {"_anchor": "bag", "items": [{"id": "item_1", "name": "Sword", "count": 1}]},
        "quests": {"q1": {"id": "q1", "title": "The lamb", "status": "active"}},
    }
)


@entry("op value", LIMITS.state_chars)
def judge_value(text: str) -> None:
    done = judge_ops(_TREE, [["SET", "hero.note", text], ["PUSH", "bag", {"name": text}], ["SET", "quests.q1.status", text]])
    assert done.tree["hero"]["gold"] == 3


@entry("op path", LIMITS.reply_chars)
def judge_path(text: str) -> None:
    judge_ops(_TREE, [["SET", text, 1], ["SET", f"hero.{text}", 1], {"op": "add", "path": f"/{text}", "value": 1}, [text, "a", 1]])


@entry("ops of a reply", LIMITS.reply_chars)
def judge_reply(text: str) -> None:
    reply = parse_reply(f"<content>x</content><state_update>{text}</state_update>")
    judge_ops(_TREE, reply.ops)


# --- planning ---------------------------------------------------------------------------------------------------------

_HEAD = SessionHead(session_id="s", world_id="forest", branch_id="main", turn_id="t1", depth=1, lineage=(), version=1)
_PLANNER = RulePlanner()


@cache
def worlds() -> tuple[Any, ...]:
    return tuple(load_world(EXAMPLES / language) for language in ("en", "zh"))


def window_of(world: Any) -> SessionWindow:
    return SessionWindow(head=_HEAD, messages=(), state=world.state)


def plan_in(world: Any, text: str) -> None:
    made = _PLANNER.plan(text, window_of(world), world)
    assert 0.0 <= made.confidence <= 1.0
    assert len(made.search_intent.focus_keywords) <= 12
    assert all(0 < len(word) <= 200 for word in made.search_intent.focus_keywords)


@entry("planner", LIMITS.user_message_chars)
def plan(text: str) -> None:
    plan_in(worlds()[0], text)


@entry("planner in Chinese", LIMITS.user_message_chars)
def plan_in_chinese(text: str) -> None:
    plan_in(worlds()[1], text)


@entry("planner of a world without names", LIMITS.user_message_chars)
def plan_bare(text: str) -> None:
    plan_in(replace(worlds()[0], entities=(), actions=(), digest="bare"), text)


@entry("actions", MAX_INPUT_CHARS)
def read_action(text: str) -> None:
    world = worlds()[len(text) % 2]
    read = read_input(text, world)
    assert read.action is None or read.action in world.actions


@entry("number", LIMITS.user_message_chars)
def read_quantity(text: str) -> None:
    value = read_number(text)
    assert value is None or value >= 0


@entry("expression", LIMITS.user_message_chars, ValueError)
def read_expression(text: str) -> None:
    calculate("{" + text + "}", lambda name: len(name))


@entry("input words", LIMITS.user_message_chars)
def read_words(text: str) -> None:
    read_input_words(text, ("once upon",), ("soon",))


@entry("quiet input", LIMITS.user_message_chars)
def read_quiet(text: str) -> None:
    find_quiet(text)


@entry("guessed names", LIMITS.user_message_chars)
def guess(text: str) -> None:
    guess_names(text)


@entry("names", LIMITS.user_message_chars)
def find_in_dictionary(text: str) -> None:
    dictionary = NameDictionary(worlds()[0].entities)
    found = dictionary.find(text)
    assert all(each.phrase == normalise(each.phrase) for each in found)
    list(find_mentions(normalise(text), text[:60]))


@entry("mentions of an input", LIMITS.user_message_chars)
def find_itself(text: str) -> None:
    plain = normalise(text)
    list(find_mentions(plain, text[: len(text) // 2]))


@entry("searched text", LIMITS.user_message_chars)
def search_text(text: str) -> None:
    world = worlds()[0]
    assert len(find_searched_text(text, window_of(world), world)) <= len(text)


@entry("small model's plan", LIMITS.reply_chars, JacquardError)
def read_model_plan(text: str) -> None:
    request = _plan_request("Where?")
    read_plan(text, request, ["chat"])


@entry("small model's planning prompt", LIMITS.user_message_chars)
def write_plan_prompt(text: str) -> None:
    for _, said in plan_prompt(_plan_request(text)):
        assert "</current_input><" not in said


def _plan_request(text: str) -> PlanRequest:
    world = worlds()[0]
    return PlanRequest(user_message=text, recent=(text, "Wren: yes"), plan=plan_of(()), window=window_of(world), world=world)


def plan_of(keywords: tuple[str, ...]) -> PlanContext:
    return PlanContext(
        triage=Triage.NARRATIVE,
        active_quest_id=None,
        current_goal="",
        template_id="chat",
        search_intent=SearchIntent(enabled=True, focus_keywords=keywords),
    )


# --- recall and selection ---------------------------------------------------------------------------------------------


@entry("search words", LIMITS.tool_result_chars)
def split_words(text: str) -> None:
    tokens = word_tokens(text)
    assert not any(token != token.strip() or not token for token in tokens)
    postings = Postings()
    postings.append([tokens, ["other"]])


@entry("query", LIMITS.user_message_chars)
def read_query(text: str) -> None:
    query = RetrievalQuery(text=text, world_id="w", session_id="s", lineage=(), depth=1, recent=(text, "Yes."), keywords=(text[:40],))
    for each in split_query(query):
        find_query_features(each, lexical_terms(each))
        vector_texts(each)


@entry("dates", LIMITS.tool_result_chars)
def read_dates(text: str) -> None:
    found = resolve_dates(text, AT)
    assert len(found) <= 12
    assert all(each.first <= each.last and each.label for each in found)


@entry("entry of an index", LIMITS.reply_chars)
def index_entry(text: str) -> None:
    entry_ = MemoryEntry(entry_id="e", scope="session:s", chain=Chain.HISTORY, kind="message", text=text, title="Wren", at=AT, speaker="Wren")
    own_words(entry_)
    date_words(entry_)
    text_features(text)


@entry("relevance", LIMITS.user_message_chars)
def judge_relevance(text: str) -> None:
    candidate = Candidate(entry_id="e", scope="w", chain=Chain.LORE, kind="k", title=text[:30], preview=text[:2_000], score=1.0, signals=Signals())
    request = SelectionRequest(user_message=text, recent=(), plan=plan_of((text[:40],)), candidates=(candidate,), limit=3)
    assert all(0.0 <= each <= 1.0 for each in estimate_relevance(request))


@entry("fingerprint", LIMITS.reply_chars)
def make_fingerprint(text: str) -> None:
    fingerprint_text(text)
    content_words(text)


@entry("excerpt", LIMITS.reply_chars)
def cut_excerpt(text: str) -> None:
    assert "\n" not in excerpt(text, frozenset(word_tokens(text[:200])), 120)


@entry("preview", LIMITS.tool_result_chars)
def cut_preview(text: str) -> None:
    assert COUNT(preview(text, CalibratedEstimator())) <= 101


@entry("selector's answer", LIMITS.reply_chars, JacquardError)
def read_selection(text: str) -> None:
    ids = ["lore_1", "x", "y"]
    selection = parse_selection(text, ids, 2)
    assert set(selection.entry_ids) <= set(ids) and len(selection.entry_ids) <= 2


@entry("answer of a model", LIMITS.reply_chars)
def strip_answer(text: str) -> None:
    strip_thoughts(text)
    read_fence(text)
    read_fence(text, own_line=True)
    find_text_language(text)


# --- summaries --------------------------------------------------------------------------------------------------------


@entry("sentences", LIMITS.reply_chars)
def cut_sentences(text: str) -> None:
    assert sum(map(len, split_sentences(text))) <= len(text)


@entry("summary of a turn", LIMITS.reply_chars)
def sum_up(text: str) -> None:
    for turn in (
        ConversationTurn(turn_id="t", depth=1, lines=(("user", text), ("assistant", text))),
        ConversationTurn(turn_id="t", depth=1, lines=(("user", text),)),
        ConversationTurn(turn_id="t", depth=1, lines=(), gist=text),
    ):
        assert "\n" not in summarize_turn(turn)


@entry("summary that grew", LIMITS.reply_chars)
def thin_out(text: str) -> None:
    kept = thin_lines(text.splitlines(), 60, COUNT)
    assert not kept or COUNT("\n".join(kept)) <= 60


@entry("model's summary", LIMITS.reply_chars, JacquardError)
def read_model_summary(text: str) -> None:
    request = SummaryRequest(turns=(ConversationTurn(turn_id=text[:20], depth=1, lines=((text[:9], text),)),), previous="", limit_tokens=50)
    summary_prompt(request)
    read_summary(text, request, COUNT)


@entry("model's memory", LIMITS.reply_chars, JacquardError)
def read_memory(text: str) -> None:
    turns_request((ConversationTurn(turn_id="t", depth=1, lines=((text[:9], text),)),), "en", 1.0)
    try:
        read_narrative(text)
    finally:
        read_turns(text, (1,))


@entry("shortened text", LIMITS.tool_result_chars)
def shorten(text: str) -> None:
    kept, shown = truncate_with_size(text, 80, COUNT)
    assert shown <= len(text) and COUNT(kept) <= 82


@entry("token count", LIMITS.tool_result_chars)
def count_tokens(text: str) -> None:
    assert (COUNT(text) > 0) == bool(text)


# --- evidence and privacy ---------------------------------------------------------------------------------------------

_RULES = RedactionRules(dictionaries=("pii", "secrets", "internal_urls"), field_paths=("$.user.phone",))


@entry("redaction", LIMITS.tool_result_chars, MnemosyneError)
def redact(text: str) -> None:
    once, rules = redact_text(text, _RULES)
    assert bool(rules) == (once != text) or not rules
    result_of(once, rules)
    if len(text) <= 4_000:
        assert redact_text(once, _RULES)[0] == once


@entry("text that was shown", LIMITS.tool_result_chars)
def leave_out_shown(text: str) -> None:
    shown = (ShownText(source_id="m", text="The old door to Wren's tower is open and nobody remembers who went in before."),)
    without_shown(text, shown)


@entry("text that repeats itself", LIMITS.reply_chars)
def leave_out_itself(text: str) -> None:
    shown = (ShownText(source_id="m", text=text),)
    left = without_shown(text, shown)
    assert weight(text) < 12 or "[" not in text[:0] and left is not None


@entry("scrubbing", LIMITS.reply_chars)
def scrub(text: str) -> None:
    scrubber = Scrubber([text[:400], "Lena of the mill by the river"], ["lena_7"])
    scrubber.text(text)
    if weight(text) >= 12:
        assert occurs_in(text.strip(), f"- {text.strip()} -")


@entry("scrubbing of itself", LIMITS.reply_chars)
def scrub_itself(text: str) -> None:
    left = Scrubber([text]).text(text)
    assert weight(text) < 12 or len(text.strip()) < 24 or text.strip() not in left


@entry("claims", LIMITS.tool_result_chars)
def read_claims(text: str) -> None:
    evidence = _evidence(text)
    assert len(claims_of(evidence)) <= 200


@entry("ranking of evidence", LIMITS.tool_result_chars)
def rank(text: str) -> None:
    rank_evidence((_evidence(text), _evidence("The key.")), {"key": 1.0, **dict.fromkeys(word_tokens(text[:200]), 1.0)})


def _evidence(text: str) -> Evidence:
    source = EvidenceSource(kind=SourceKind.TOOL, name="read")
    return Evidence(evidence_id="e", type=EvidenceType.TOOL_RESULT, source=source, content=text, metadata={"subject": "door"})


for _selector in ("lines:1-2", "chars:0-9", "json:$..*", r"regex:\w+", "lines:1-9,regex:[^a]"):

    def _extract(text: str, selector: str = _selector) -> None:
        found = extract(text, selector)
        assert all(0 <= begin <= end <= len(text) for begin, end in found.spans)

    entry(f"selector {_selector}", LIMITS.tool_result_chars, MnemosyneError)(_extract)


@entry("selector's text", LIMITS.reply_chars, MnemosyneError)
def read_selector(text: str) -> None:
    for name in ("", "lines:", "chars:", "lines:1-2,regex:"):
        try:
            parse_selector(name + text)
        except MnemosyneError:
            continue


@entry("pattern", MAX_PATTERN_CHARS, MnemosyneError)
def read_pattern(text: str) -> None:
    compile_pattern(text)


@entry("pattern of an author", MAX_PATTERN_CHARS, MnemosyneError)
def read_author_pattern(text: str) -> None:
    compile_re(text)


@entry("text of a pattern", MAX_INPUT_CHARS, MnemosyneError)
def match_pattern(text: str) -> None:
    match_whole(r"(?:buy|买)\s*(?P<n>\d+|[一二三]+) (?P<what>.+?)s?", text)


@entry("path", MAX_PATH_CHARS, MnemosyneError)
def read_path(text: str) -> None:
    compile_path(f"$.{text}" if text[:1] != "$" else text)


@entry("JSON", LIMITS.tool_result_chars, MnemosyneError)
def read_json_text(text: str) -> None:
    value = read_json(text)
    assert value is None or isinstance(value, dict | list)
    find_nodes(text, "$[*].id")


@entry("strict JSON", MEASURED_CHARS, MnemosyneError)
def read_strict_json(text: str) -> None:
    parse_json(text.encode("utf-8", "surrogatepass"), "file.json")


# --- addresses, command line ------------------------------------------------------------------------------------------


@entry("address", LIMITS.user_message_chars)
def read_address(text: str) -> None:
    mask_address(text)
    mask_address(f"https://{text}@host/?k={text}")


@entry("error of a client", LIMITS.reply_chars)
def hide(text: str) -> None:
    said = hide_secrets(f"{text} https://u:geheim@host/ ", "https://u:geheim@host/", "sk-secret")
    assert "geheim" not in said.removeprefix(text[: len(text)]) or "geheim" in text


@entry("URI", LIMITS.user_message_chars, MnemosyneError)
def read_uri(text: str) -> None:
    parse_uri(text if text.startswith("mnemo") else f"mnemosyne://session:s/turn/{text}")


@entry("command line", LIMITS.reply_chars)
def print_text(text: str) -> None:
    said = clean(text)
    assert len(said) == len(text)
    assert not any(unicodedata.category(sign) == "Cc" and sign not in "\n\t" for sign in said)
    console = Console(file=StringIO(), width=100, soft_wrap=True)
    console.print(Line(said))


@entry("differences", 200_000)
def compare_texts(text: str) -> None:
    diff_lines(text, text[::-1])


# --- templates, packs, files ------------------------------------------------------------------------------------------


@cache
def _folder() -> Path:
    return Path(mkdtemp(prefix="text-entries-"))


_PRINTED = (
    "<a b=\"{{ x | attr }}\">{{ x | text }}</a>{{ x }} {{ x | upper }} {{ x | lower | title }} {{ x | trim }} {{ x | replace('a', 'b') }} "
    "{{ x | truncate(40) }} {{ {'k': x} | yaml }} {{ x | length }} {{ [x, x] | join(', ') }} {{ x.split() | length }} {{ x ~ x }}"
)


@cache
def _printing() -> Any:
    folder = _folder() / "templates" / "chat"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "x.j2").write_text(_PRINTED)
    return open_templates([folder.parent, find_shipped_templates()])


@entry("value of a template", 40_000, JacquardError)
def print_value(text: str) -> None:
    shown = _printing().render("chat/x.j2", {"x": text})
    assert shown.count("<") == 2


@entry("value of a reply's template", 40_000, JacquardError)
def print_reply(text: str) -> None:
    said = render_reply("{{ x }}{{ x | upper | trim }}", {"x": text}, name="r")
    assert said.startswith(text)


@entry("template of a reply", FILE_LIMIT_BYTES, JacquardError)
def read_reply_template(text: str) -> None:
    render_reply(text, {"x": "y", "y": [1, 2]}, name="r")


@entry("template", FILE_LIMIT_BYTES, JacquardError, costs=True)
def lint(text: str) -> None:
    folder = _folder() / "linted" / "templates" / "combat"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "status.j2").write_bytes(text.encode("utf-8", "surrogatepass"))
    lint_templates(find_target(str(folder / "status.j2"), pack=None, shipped=find_shipped_templates()))


@entry("prompt of a small model", LIMITS.reply_chars, JacquardError)
def read_prompt_template(text: str) -> None:
    try:
        parse_template(text, "a.txt")
    finally:
        parse_template(f"[system]\n{text}\n[user]\nx", "a.txt")


@entry("session document", LIMITS.tool_result_chars)
def read_session(text: str) -> None:
    message = {"message_id": "m1", "role": "user", "content": text, "refs": [{"evidence_id": "e1", "selector": text[:80]}]}
    data = {
        "schema_version": "1.0",
        "meta": {"session_id": text[:20] or "s", "created_at": text[:30]},
        "session": {"messages": [message], "summary": {"content": text}, text[:30]: text},
        "evidences": [{"evidence_id": "e1", "type": text[:10], "source": {"kind": "tool", "name": text}, "content": text}],
        "context_blocks": [],
    }
    document, faults = read_document(data)
    assert (document is None) == any(fault.severity.value == "error" for fault in faults)
    if document is not None:
        document_to_json(document)


@entry("corpus", MAX_LINE_BYTES // 2, MnemosyneError, costs=True)
def import_corpus(text: str) -> None:
    file = _folder() / "corpus.jsonl"
    said = text.encode("utf-8", "replace").decode()
    lines = [{"id": "a", "chain": "history", "session": "s", "speaker": said[:30], "text": said}, {"id": "b", "chain": "lore", "text": said[:9]}]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    corpus = read_corpus(file)
    assert to_session(corpus, "s").turns[0].messages[0].content == said


@entry("file of a corpus", MAX_LINE_BYTES // 4, MnemosyneError, costs=True)
def import_file(text: str) -> None:
    file = _folder() / "raw.jsonl"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    read_corpus(file)


_PACK = {
    "lore.md": "---\nid: lore_x\nname: X\ncategory: encyclopedia\n---\n%s\n",
    "lore.yaml": "%s",
    "world.yaml": "id: w\ntitle: W\nlocale: en\n%s\n",
    "actions.yaml": "- id: a\n  patterns: [%s]\n  reply: x\n",
}

for _file, _form in _PACK.items():

    def _load(text: str, name: str = _file, form: str = _form) -> None:
        folder = _folder() / f"pack-{name}"
        place = folder / ("lore" if name.startswith("lore") else ".") / name
        place.parent.mkdir(parents=True, exist_ok=True)
        (folder / "world.yaml").write_text("id: w\ntitle: W\nlocale: en\n")
        said = json.dumps(text) if name == "actions.yaml" else text
        place.write_bytes((form % said).encode("utf-8", "surrogatepass"))
        load_world(folder)

    entry(f"pack: {_file}", MEASURED_CHARS // 4, MnemosyneError, costs=True)(_load)


# --- normal forms -----------------------------------------------------------------------------------------------------


@entry("normal forms", LIMITS.user_message_chars)
def normalise_text(text: str) -> None:
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        done = normal_form(form, text)
        assert unicodedata.is_normalized(form, done) or len(text) > 4_000
    normalise(text)
