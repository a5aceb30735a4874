from __future__ import annotations

import contextlib
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemosyne import (
    Evidence,
    EvidenceSource,
    EvidenceType,
    Ref,
    RefState,
    SelectorResolveError,
    SourceKind,
    check_ref,
    extract,
    make_ref,
)
from mnemosyne.evidence.selectors import parse_selector, ref_hash

GUARD_SECONDS = 60.0
POEM = "one fish\ntwo fish\r\nred fish\n\n蓝色的鱼\n"
ORDER = json.dumps(
    {"id": "o1", "data": {"items": [{"name": "锅\n铲", "qty": 2}, {"name": "lamp", "qty": 0}], "note": ""}},
    ensure_ascii=False,
    indent=1,
)


@pytest.mark.parametrize(
    ("content", "selector", "text"),
    [
        (POEM, "lines:1-2", "one fish\ntwo fish"),
        (POEM, "lines:2-3", "two fish\r\nred fish"),
        (POEM, "lines:5", "蓝色的鱼"),
        (POEM, "lines:4-4", ""),
        (POEM, "chars:0-3", "one"),
        (POEM, "chars:4-8", "fish"),
        (POEM, "regex:(two|red) fish", "two fish\nred fish"),
        (POEM, "regex:fis{1,1}h,lines:1-1", "fish"),
        (POEM, "lines:1-2, regex:\\w+ fish", "one fish\ntwo fish"),
        (POEM, "chars:0-30,lines:2-2,regex:fish", "fish"),
        (ORDER, "json:$.data.items[1].name", "lamp"),
        (ORDER, "json:$.data.items[0].name", "锅\n铲"),
        (ORDER, "json:$.data.items[*].qty", "2\n0"),
        (ORDER, "json:$['id','data'].note", ""),
        (ORDER, "json:$.data.items[?@.qty > 1].name", "锅\n铲"),
        (ORDER, "json:$.data.items[?match(@.name, 'l.*')].qty", "0"),
        (ORDER, "json:$..qty,regex:[0-9]", "2\n0"),
        (ORDER, "json:$.data.items[0].name,regex:锅", "锅"),
        ('{"a": 1, "a": {"b": 2}}', "json:$.a", '{"b": 2}'),
        ('{"a,lines:1": 7}', "json:$['a\\u002clines:1']", "7"),
        ("a,lines:b", "regex:a[,]lines:b", "a,lines:b"),
    ],
)
def test_what_a_selector_points_at(content, selector, text):
    found = extract(content, selector)
    assert found.text == text
    assert all(0 <= begin <= end <= len(content) for begin, end in found.spans)


@pytest.mark.parametrize(
    ("content", "selector", "words"),
    [
        (POEM, "", "begin with lines:"),
        (POEM, "page:3", "begin with lines:"),
        (POEM, "lines:", "two whole numbers"),
        (POEM, "lines:0-2", "counted from 1"),
        (POEM, "lines:3-2", "selects nothing"),
        (POEM, "lines:4-6", "5 lines"),
        ("", "lines:1", "0 lines"),
        (POEM, "chars:3-3", "selects nothing"),
        (POEM, "chars:0-999", f"{len(POEM)} characters"),
        (POEM, "chars:-1-3", "two whole numbers"),
        (POEM, "regex:", "nothing follows"),
        (POEM, "regex:(", "not a regular expression"),
        (POEM, "regex:whale", "matches nothing"),
        (POEM, "regex:x*", "matches nothing"),
        (POEM, "json:$.a", "not JSON"),
        (ORDER, "json:data", "RFC 9535"),
        (ORDER, "json:$.nope", "selects nothing"),
        ('["word"]', "json:$[0][0:9]", "selects nothing"),
        (ORDER, "json:$[?@..qty]", "any depth"),
        (ORDER, "json:$[?@[?@.qty]]", "another filter"),
        (POEM, "lines:1-1,lines:2-2", "nothing in common"),
        (POEM, ",".join(["lines:1-1"] * 17), "more than 16"),
        ("[" * 100_000, "json:$", "cannot be read"),
    ],
)
def test_a_selector_that_fails_says_what_to_do(content, selector, words):
    with pytest.raises(SelectorResolveError, match="Selector") as caught:
        extract(content, selector)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("content", "selector"),
    [
        ("a" * 5_000 + "b", "regex:(?R)"),
        ("a" * 60_000, "regex:(?:a+?b?)+?(?:aa+)+?c(?<=d)"),
        (json.dumps([[[[[[[[[["x"] * 9] * 9] * 9] * 9]]]]]]), "json:$..*..*..*..*..*..*.no"),
        (json.dumps([{"a": "a" * 3_000 + "b"}] * 3_000), "json:$[?match(@.a, '(?:a|a?)+$')]"),
        (json.dumps([list(range(300))] * 300), "json:$[?count($[*][*]) < 0]"),
        ("x", "regex:" + "(" * 1_900),
        ("x", "regex:a{9999999999999999999}"),
        ("{}", "json:$" + "[?@.a == 1]" * 200),
    ],
)
def test_no_selector_runs_for_long(content, selector):
    started = time.perf_counter()
    with pytest.raises(SelectorResolveError):
        extract(content, selector)
    assert time.perf_counter() - started < GUARD_SECONDS


def test_the_parts_of_a_selector_keep_their_commas():
    parsed = parse_selector("lines:12-18, chars:120-260,regex:a{1,3},b,json:$[0,1]")
    assert [(each.type.value, dict(each.params)) for each in parsed] == [
        ("lines", {"from": 12, "to": 18}),
        ("chars", {"from": 120, "to": 260}),
        ("regex", {"pattern": "a{1,3},b"}),
        ("json", {"path": "$[0,1]"}),
    ]


def test_a_changed_source_is_noticed():
    evidence = Evidence(
        evidence_id="e1", type=EvidenceType.RAG_DOC, source=EvidenceSource(kind=SourceKind.RAG), content=POEM
    )
    ref = make_ref(evidence, "lines:2")
    assert check_ref(ref, evidence) is RefState.FRESH
    assert check_ref(Ref(evidence_id="e1", selector="lines:2"), evidence) is RefState.FRESH
    assert check_ref(make_ref(evidence), evidence) is RefState.FRESH

    def grown(content: str) -> Evidence:
        return Evidence(evidence_id="e1", type=evidence.type, source=evidence.source, content=content)

    assert check_ref(ref, grown(POEM + "more")) is RefState.FRESH
    assert check_ref(ref, grown("new\n" + POEM)) is RefState.CHANGED
    assert check_ref(ref, grown("short")) is RefState.MISSING
    assert check_ref(ref, None) is RefState.MISSING


ATOMS = st.sampled_from(["a", "aa", ".", "[ab]", r"\w", "(?=a)", "b?", "a|aa", r"\1?"])
HOSTILE = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("(?:{}){}".format, inner, st.sampled_from(["+", "*", "+?", "*?", "{2,9}", "{0,40}"])),
        st.builds("({}|{})*".format, inner, inner),
        st.builds("{}{}".format, inner, inner),
        st.builds("(?={}){}".format, inner, inner),
        st.builds("(?<={})".format, inner),
    ),
    max_leaves=6,
)
DEEP = json.dumps([[[[["x", {"a": "a" * 300}] * 6] * 6] * 6] * 6])
STEPS = st.lists(
    st.sampled_from(["..*", "[*]", "..a", "[?@.a]", "[?match(@.a,'(a|aa)+b')]", "[0:9]", ".*", "['a']", "[-1]"]),
    min_size=1,
    max_size=7,
)


def bounded(content: str, selector: str) -> None:
    """Ask; whatever is answered, it comes before the guard."""
    started = time.perf_counter()
    with contextlib.suppress(SelectorResolveError):
        extract(content, selector)
    assert time.perf_counter() - started < GUARD_SECONDS


@settings(max_examples=25, deadline=None)
@given(HOSTILE, st.sampled_from(["", "$", "c", "(?<!a)c$"]))
def test_no_pattern_holds_the_search_up(pattern, end):
    bounded("a" * 4_000 + "b", f"regex:{pattern}{end}")


@settings(max_examples=25, deadline=None)
@given(STEPS.map("".join))
def test_no_path_holds_the_search_up(steps):
    bounded(DEEP, f"json:${steps}")


ALPHABET = st.sampled_from("ab1 ,:{}[]\"'\\\n\r$.*?@()鱼🐟\ud800-")
CONTENTS = st.one_of(
    st.text(ALPHABET, max_size=60),
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "鱼"]), inner, max_size=3)
        ),
        max_leaves=8,
    ).map(lambda tree: json.dumps(tree, ensure_ascii=False)),
)
NUMBERS = st.integers(min_value=0, max_value=30)
SELECTORS = st.one_of(
    st.builds(lambda a, b: f"lines:{a}-{b}", NUMBERS, NUMBERS),
    st.builds(lambda a, b: f"chars:{a}-{b}", NUMBERS, NUMBERS),
    st.text(ALPHABET, max_size=12).map("regex:{}".format),
    st.sampled_from(["regex:.", "regex:[ab]+", "regex:\\w", "regex:(?r)a.", "regex:(?s).+"]),
    st.sampled_from(["json:$", "json:$..*", "json:$.a", "json:$[0]", "json:$.*", "json:$..a", "json:$[?@.a]"]),
    st.text(ALPHABET, max_size=12).map("json:${}".format),
    st.text(max_size=20),
)


def spans_of(content: str, selector: str) -> tuple[tuple[int, int], ...]:
    """The spans of a selector; none where it fails."""
    try:
        return extract(content, selector).spans
    except SelectorResolveError:
        return ()


def chars_of(content: str, selector: str) -> set[int]:
    return {place for begin, end in spans_of(content, selector) for place in range(begin, end)}


@given(CONTENTS, st.lists(SELECTORS, min_size=1, max_size=3).map(",".join))
def test_whatever_is_asked_only_a_selector_error_comes(content, selector):
    try:
        found = extract(content, selector)
    except SelectorResolveError:
        return
    assert found.spans
    assert list(found.spans) == sorted(found.spans)
    assert all(left[1] <= right[0] for left, right in zip(found.spans, found.spans[1:], strict=False))
    assert ref_hash(found) == ref_hash(extract(content, selector))


@given(CONTENTS, SELECTORS, SELECTORS)
def test_a_combination_is_the_overlap_in_any_order(content, first, second):
    for each in (first, second):
        try:
            parse_selector(each)
        except SelectorResolveError:
            return
    if len(parse_selector(f"{first},{second}")) != 2 or len(parse_selector(f"{second},{first}")) != 2:
        return
    both = chars_of(content, f"{first},{second}")
    assert both == chars_of(content, first) & chars_of(content, second)
    assert spans_of(content, f"{first},{second}") == spans_of(content, f"{second},{first}")
    if both:
        assert extract(content, f"{first},{second}").text == extract(content, f"{second},{first}").text


@given(CONTENTS, SELECTORS)
def test_a_selector_twice_is_the_selector_once(content, selector):
    if not chars_of(content, selector) or len(parse_selector(f"{selector},{selector}")) != 2:
        return
    once, twice = extract(content, selector), extract(content, f"{selector},{selector}")
    assert [span for span in once.spans if span[0] < span[1]] == list(twice.spans)


@given(st.text(max_size=80), NUMBERS, NUMBERS)
def test_characters_are_counted_as_python_does(content, begin, end):
    if begin < end <= len(content):
        assert extract(content, f"chars:{begin}-{end}").text == content[begin:end]


@given(st.lists(st.text(st.characters(exclude_characters="\r\n"), min_size=1), min_size=1, max_size=9), st.data())
def test_lines_are_counted_from_one(lines, data):
    first = data.draw(st.integers(min_value=1, max_value=len(lines)))
    last = data.draw(st.integers(min_value=first, max_value=len(lines)))
    assert extract("\n".join(lines), f"lines:{first}-{last}").text == "\n".join(lines[first - 1 : last])
