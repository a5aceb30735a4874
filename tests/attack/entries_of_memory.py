"""Entry points of memory: search words, recall, selection, summaries, evidence, redaction and erasure."""

from __future__ import annotations

import re
from contextlib import suppress

from entry_points import AT, COUNT, LIMITS, MEASURED_CHARS, entry, plan_of

from filament import dump_yaml, escape_text
from filament.boundaries import show_text
from jacquard import JacquardError, SelectionRequest, SummarizerError, SummaryRequest
from jacquard.adapters.prompts.templates import find_text_language
from jacquard.core.block_kinds import BlockKind
from jacquard.core.blocks import Block, BlockOrigin, BlockPlace, place_block
from jacquard.core.model_answers import read_fence, strip_thoughts
from jacquard.core.protocols import ConversationTurn
from jacquard.memory.consolidate.prompts import read_narrative, read_turns, turns_request
from jacquard.memory.summarize.extract import extract_summary
from jacquard.memory.summarize.model import read_summary, shorten_summary, summary_prompt
from jacquard.memory.summarize.sentences import split_sentences
from jacquard.memory.threads import KINDS, find_keeping, find_threads
from jacquard.pipeline.curation.selection_parser import parse_selection
from jacquard.pipeline.curation.selectors.excerpt import excerpt
from jacquard.pipeline.curation.selectors.heuristic import fingerprint_text
from jacquard.pipeline.curation.selectors.relevance import content_words, estimate_relevance
from jacquard.pipeline.curation.validity import find_asked_turn, with_asked_time
from jacquard.pipeline.planning.actions import MAX_INPUT_CHARS
from jacquard.pipeline.truncation import truncate_with_size
from jacquard.pipeline.turn import NO_PLAN
from jacquard.pipeline.weaving.authored_cuts import cut_block
from mnemosyne import (
    BlockType,
    CalibratedEstimator,
    Candidate,
    Chain,
    Evidence,
    EvidenceSource,
    EvidenceType,
    MemoryEntry,
    MnemosyneError,
    RedactionRules,
    RetrievalQuery,
    Signals,
    SourceKind,
    extract,
)
from mnemosyne.core.json_text import parse_json, read_json
from mnemosyne.core.jsonpath import MAX_PATH_CHARS, compile_path, find_nodes
from mnemosyne.core.regexes import MAX_PATTERN_CHARS, compile_pattern, compile_re, match_whole
from mnemosyne.evidence.conflicts import claims_of
from mnemosyne.evidence.echoes import without_shown
from mnemosyne.evidence.relevance import rank_evidence
from mnemosyne.evidence.selectors import parse_selector
from mnemosyne.privacy.redact import redact_text, result_of
from mnemosyne.privacy.runs import RUN, RUN_WEIGHT, TELLING, TextMatcher, plain_form, weight
from mnemosyne.privacy.scrub import Scrubber
from mnemosyne.retrieval.engines.rows import date_words, names_of_subject, own_words
from mnemosyne.retrieval.recall.entities import asks_for_several, find_bridges, name_terms, person_terms
from mnemosyne.retrieval.recall.multi_query import split_query
from mnemosyne.retrieval.recall.query_features import find_query_features, lexical_terms, vector_texts
from mnemosyne.retrieval.recall.rerank_features import text_features
from mnemosyne.retrieval.text.dates import resolve_dates
from mnemosyne.retrieval.text.lexical import Postings
from mnemosyne.retrieval.text.persons import find_persons, find_relation
from mnemosyne.retrieval.text.preview import preview
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.ingest import ShownText

# --- recall and selection ---------------------------------------------------------------------------------------------


@entry("search words", LIMITS.tool_result_chars)
def split_words(text: str) -> None:
    tokens = word_tokens(text)
    assert not any(token != token.strip() or not token for token in tokens)
    postings = Postings()
    postings.append([tokens, ["other"]])


@entry("query", LIMITS.user_message_chars)
def read_query(text: str) -> None:
    query = RetrievalQuery(
        text=text, world_id="w", session_id="s", lineage=(), depth=1, recent=(text, "Yes."), keywords=(text[:40],)
    )
    for each in split_query(query):
        asks_for_several(find_query_features(each, lexical_terms(each)), each.text)
        vector_texts(each)
        name_terms(each)
        person_terms(each)


@entry("dates", LIMITS.tool_result_chars)
def read_dates(text: str) -> None:
    found = resolve_dates(text, AT)
    assert len(found) <= 12
    assert all(each.first <= each.last and each.label for each in found)


@entry("entry of an index", LIMITS.reply_chars)
def index_entry(text: str) -> None:
    entry_ = MemoryEntry(
        entry_id="e",
        scope="session:s",
        chain=Chain.HISTORY,
        kind="message",
        text=text,
        title="Wren",
        at=AT,
        speaker="Wren",
    )
    own_words(entry_)
    date_words(entry_)
    text_features(text)


@entry("persons of a message", LIMITS.reply_chars)
def name_persons_of(text: str) -> None:
    names = find_persons(("Wren", text), [(text[:200], text), ("Ann", text)])
    assert len(names) == len(set(names))
    entry_ = MemoryEntry(
        entry_id="e", scope="session:s", chain=Chain.HISTORY, kind="message", text=text, title="Wren", speaker="Wren"
    )
    query = RetrievalQuery(text=text[:400], world_id="w", session_id="s", lineage=(), depth=1)
    relations = [find_relation(text), find_relation("Where is Wren's brother?"), find_relation("王明的弟弟在哪？")]
    for relation in filter(None, relations):
        find_bridges(query, relation, [entry_])


@entry("names of an entry of lore", LIMITS.reply_chars)
def name_subject(text: str) -> None:
    for title in ("", text):
        names = names_of_subject(
            MemoryEntry(
                entry_id="e",
                scope="session:s",
                chain=Chain.LORE,
                kind="agent",
                text=text,
                title=title,
                keys=(text[:200],),
            )
        )
        assert len(names) == len(set(names))


@entry("relevance", LIMITS.user_message_chars)
def judge_relevance(text: str) -> None:
    candidate = Candidate(
        entry_id="e",
        scope="w",
        chain=Chain.LORE,
        kind="k",
        title=text[:30],
        preview=text[:2_000],
        score=1.0,
        signals=Signals(),
    )
    request = SelectionRequest(
        user_message=text, recent=(), plan=plan_of((text[:40],)), candidates=(candidate,), limit=3
    )
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
    assert set(selection.entry_ids) <= set(ids)
    assert len(selection.entry_ids) <= 2


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
        with suppress(SummarizerError):
            request = SummaryRequest(turns=(turn,), previous="", limit_tokens=200)
            assert "\n" not in extract_summary(request, COUNT).content


@entry("summary that grew", LIMITS.reply_chars)
def thin_out(text: str) -> None:
    with suppress(SummarizerError):
        request = SummaryRequest(turns=(), previous=text, limit_tokens=60, player="Ilse", names=("Oda", text[:9]))
        assert COUNT(extract_summary(request, COUNT).content) <= 60


@entry("model's summary", LIMITS.reply_chars, JacquardError)
def read_model_summary(text: str) -> None:
    request = SummaryRequest(
        turns=(ConversationTurn(turn_id=text[:20], depth=1, lines=((text[:9], text),)),), previous="", limit_tokens=50
    )
    summary_prompt(request)
    read_summary(text, request, COUNT)


@entry("model's memory", LIMITS.reply_chars, JacquardError)
def read_memory(text: str) -> None:
    turns_request((ConversationTurn(turn_id="t", depth=1, lines=((text[:9], text),)),), "en", 1.0)
    try:
        read_narrative(text)
    finally:
        read_turns(text, (1,))


@entry("open threads", LIMITS.reply_chars)
def find_what_is_open(text: str) -> None:
    for left in (find_threads(text, ""), find_threads("", text), find_threads(text, text)):
        assert all(each.kind in KINDS and each.text for each in left)
    find_keeping(text, text)


@entry("named turn", LIMITS.user_message_chars)
def find_named_turn(text: str) -> None:
    asked = find_asked_turn(text)
    assert asked is None or asked >= 0
    with_asked_time(NO_PLAN, text, 10)


@entry("shortened text", LIMITS.tool_result_chars)
def shorten(text: str) -> None:
    kept, shown = truncate_with_size(text, 80, COUNT)
    assert shown <= len(text)
    assert COUNT(kept) <= 82


@entry("cut of an authored text", LIMITS.tool_result_chars)
def cut_authored(text: str) -> None:
    for inside in (
        escape_text(text),
        escape_text(dump_yaml({"name": "Kai", "past": text})),
        show_text(text, "b7c1f2a09d33"),
    ):
        content = f"<persona>\n{inside}\n</persona>"
        whole = Block(
            block_id="persona",
            kind=BlockKind.TEMPLATE,
            block_type=BlockType.INSTRUCTION,
            content=content,
            place=BlockPlace(slot="persona"),
            origin=BlockOrigin(source="automation:x.j2"),
            tokens=COUNT(content),
        )
        cut = cut_block(place_block(whole), 200, COUNT)
        assert cut is None or cut.tokens == COUNT(cut.content) <= 200


@entry("summary that is too long", LIMITS.reply_chars, JacquardError)
def shorten_long_summary(text: str) -> None:
    kept, dropped = shorten_summary(text, 60, COUNT)
    assert not dropped or COUNT(kept) <= 60


@entry("token count", LIMITS.tool_result_chars)
def count_tokens(text: str) -> None:
    assert (COUNT(text) > 0) == bool(text)


# --- evidence and privacy ---------------------------------------------------------------------------------------------

_RULES = RedactionRules(
    dictionaries=("pii", "identity", "secrets", "internal_urls"),
    field_paths=("$.user.phone",),
    words={"staff": ("Wren", "Wren Alder", "阿福")},
    named_patterns={"case_number": ("C-[0-9]{6}",)},
)


@entry("redaction", LIMITS.tool_result_chars, MnemosyneError)
def redact(text: str) -> None:
    once, rules = redact_text(text, _RULES)
    assert rules or once == text
    result_of(once, rules)
    if len(text) <= 4_000:
        assert redact_text(once, _RULES)[0] == once


@entry("text that was shown", LIMITS.tool_result_chars)
def leave_out_shown(text: str) -> None:
    shown = (
        ShownText(source_id="m", text="The old door to Wren's tower is open and nobody remembers who went in before."),
    )
    without_shown(text, shown)


_ENTITY = re.compile("&[^;]{0,12};")


@entry("text that repeats itself", LIMITS.reply_chars)
def leave_out_itself(text: str) -> None:
    shown = (ShownText(source_id="m", text=text),)
    left = without_shown(text, shown)
    # Short texts and entities are no evidence that a text was copied, and of JSON each value is looked at by itself.
    assert left.text == "" or weight(_ENTITY.sub(" ", text)) < 12 or read_json(text) is not None


@entry("scrubbing", LIMITS.reply_chars)
def scrub(text: str) -> None:
    scrubber = Scrubber([text[:400], "Lena of the mill by the river"], ["lena_7"])
    scrubber.text(text)
    if is_sought(text):
        assert TextMatcher([text], least=1).occurs(f"- {text.strip()} -")


@entry("scrubbing of itself", LIMITS.reply_chars)
def scrub_itself(text: str) -> None:
    left = Scrubber([text]).text(text)
    assert text.strip() not in left or not is_sought(text)


def is_sought(text: str) -> bool:
    """Return whether an erasure looks for a text: it has letters enough, and so has one of its runs."""
    plain = plain_form(text).text.strip()
    runs = range(0, len(plain) - RUN + 1, RUN // 2)
    return weight(plain) >= TELLING and (
        len(plain) < RUN or any(weight(plain[at : at + RUN]) >= RUN_WEIGHT for at in runs)
    )


@entry("claims", LIMITS.tool_result_chars)
def read_claims(text: str) -> None:
    evidence = _evidence(text)
    assert len(claims_of(evidence)) <= 200


@entry("ranking of evidence", LIMITS.tool_result_chars)
def rank(text: str) -> None:
    rank_evidence((_evidence(text), _evidence("The key.")), {"key": 1.0, **dict.fromkeys(word_tokens(text[:200]), 1.0)})


def _evidence(text: str) -> Evidence:
    source = EvidenceSource(kind=SourceKind.TOOL, name="read")
    return Evidence(
        evidence_id="e", type=EvidenceType.TOOL_RESULT, source=source, content=text, metadata={"subject": "door"}
    )


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
