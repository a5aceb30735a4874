from __future__ import annotations

import json
from time import process_time
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import RedactionError, RedactionRules
from mnemosyne.core.regexes import find_spans
from mnemosyne.privacy.redact import RegexRedactor, redact_text, redact_tree
from mnemosyne.privacy.rules import DICTIONARIES, RULES, is_id_card, is_luhn, signs_of
from mnemosyne.schema.redaction import SensitiveSpan
from mnemosyne.testing.redactor import RedactorContract
from mnemosyne.testing.redactor_samples import HARMLESS, SENSITIVE

ALL = RedactionRules(dictionaries=DICTIONARIES)


class TestRegexRedactor(RedactorContract):
    def make_redactor(self):
        return RegexRedactor()


def test_there_are_a_hundred_samples_of_each_kind():
    assert len(SENSITIVE) >= 100
    assert len(HARMLESS) >= 100


def test_the_words_around_stay():
    assert redact_text("邮箱a@b.cn，电话13800138000。", ALL)[0] == "邮箱[redacted:email]，电话[redacted:phone]。"
    assert redact_text("https://bob:pw12@x.org/a?b=1", ALL)[0] == "https://[redacted:url_credentials]@x.org/a?b=1"
    assert redact_text("password: hunter2!", ALL) == ("password: [redacted:secret]", ("secret",))


@pytest.mark.parametrize(
    ("url", "goes"),
    [
        ("http://localhost:8000/a", True),
        ("http://wiki/page", True),
        ("https://git.corp.example.com/x", False),
        ("https://git.team.corp/x", True),
        ("http://192.168.0.4/admin", True),
        ("http://172.32.0.4/admin", False),
        ("https://example.com/a", False),
    ],
)
def test_addresses_inside_a_house_are_a_dictionary_of_their_own(url, goes):
    rules = RedactionRules(dictionaries=("internal_urls",))
    assert (redact_text(f"see {url} now", rules)[0] != f"see {url} now") is goes


def test_fields_of_json_go_whatever_they_hold():
    text = '{"user": {"name": "Ann \\"A\\"", "age": 33, "tags": ["x"]}, "ok": true}'
    rules = RedactionRules(field_paths=("user.name", "$.user.age", "$..tags"), dictionaries=())
    redacted, applied = redact_text(text, rules)
    gone = "[redacted:field]"
    assert json.loads(redacted) == {"user": {"name": gone, "age": gone, "tags": gone}, "ok": True}
    assert applied == ("field",)
    assert redact_text(redacted, rules) == (redacted, ())
    assert redact_text("no json at all", rules) == ("no json at all", ())


def test_json_stays_json():
    tree = {"note": "line\nwith a@b.cn", "说明": "电话\u200b13800138000", "n": [1, {"mail": 'x"y"@z.cn c@d.org'}]}
    for text in (json.dumps(tree), json.dumps(tree, ensure_ascii=False, indent=2)):
        redacted, _ = redact_text(text, ALL)
        assert json.loads(redacted)["note"] == "line\nwith [redacted:email]"
        assert "13800138000" not in redacted
        assert "d.org" not in redacted


@pytest.mark.anyio
async def test_a_tree_loses_its_secrets_and_keeps_its_counts():
    tree = {"password": "x", "pin": 1234, "total_tokens": 7, "who": ["a@b.cn", {"n": None, "ok": True}]}
    redacted, applied = await redact_tree(RegexRedactor(), tree)
    gone = "[redacted:secret]"
    assert redacted == {
        "password": gone,
        "pin": gone,
        "total_tokens": 7,
        "who": ["[redacted:email]", {"n": None, "ok": True}],
    }
    assert applied == ("secret", "secret", "email")
    assert await redact_tree(RegexRedactor(), redacted) == (redacted, ())


@pytest.mark.anyio
async def test_a_tree_of_short_texts_costs_about_as_much_as_one_text_of_its_length():
    tree = {"rows": [{"id": f"r{n}", "state": "open", "by": f"user {n % 7}"} for n in range(2_000)]}
    redactor, text = RegexRedactor(), json.dumps(tree)
    await redactor.redact("warm")
    began = process_time()
    await redactor.redact(text)
    middle = process_time()
    await redact_tree(redactor, tree)
    assert process_time() - middle < 2 * (middle - began)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_finds_nothing_in_texts_on_which_it_is_not_tried(rule):
    for sample in (*(text for text, _ in SENSITIVE), *(secret for _, secret in SENSITIVE), *HARMLESS):
        text = normalize("NFKC", sample)
        lower = text.lower()
        is_hinted = not rule.hints or any(hint in lower for hint in rule.hints)
        if rule.needs & signs_of(text, lower) == rule.needs and is_hinted:
            continue
        found = [text[begin:end] for begin, end in find_spans(rule.pattern, text, group=rule.group)]
        assert not [each for each in found if rule.holds is None or rule.holds(each)], text


@pytest.mark.parametrize(
    "rules",
    [
        RedactionRules(patterns=("(",)),
        RedactionRules(field_paths=("$[",)),
        RedactionRules(dictionaries=("pets",)),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused_at_once(rules):
    with pytest.raises(RedactionError):
        RegexRedactor(rules)
    with pytest.raises(RedactionError):
        redact_text("x", rules)


def test_a_pattern_that_finds_itself_again_ends():
    rules = RedactionRules(patterns=(r"\w+", "redacted"), dictionaries=())
    redacted, _ = redact_text("one two", rules)
    assert redacted == "[redacted:custom] [redacted:custom]"
    assert redact_text(redacted, rules) == (redacted, ())


def test_a_host_has_dictionaries_of_its_own():
    rules = RedactionRules(
        words={"employee": ("Ada Keller", "ada", "王小明"), "ship": ("The Gull",)},
        named_patterns={"case_number": (r"C-\d{6}",)},
        dictionaries=(),
    )
    text = "ADA KELLER met Ada and Adam on the gull, case C-204411; 请找王小明谈"
    redacted, applied = redact_text(text, rules)
    assert redacted == (
        "[redacted:own_employee] met [redacted:own_employee] and Adam on [redacted:own_ship], "
        "case [redacted:own_case_number]; 请找[redacted:own_employee]谈"
    )
    assert set(applied) == {"own_employee", "own_ship", "own_case_number"}
    assert redact_text(redacted, rules) == (redacted, ())


def test_a_short_word_at_the_end_is_found_beside_a_longer_one_that_begins_with_it():
    rules = RedactionRules(words={"staff": ("Ada", "Ada Keller")})
    for text in ("Ask Ada", "Ask\u200b Ada"):
        assert redact_text(text, rules)[0] == text.replace("Ada", "[redacted:own_staff]")


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        (RedactionRules(words={"Staff": ("x",)}), "'Staff'"),
        (RedactionRules(words={"staff": (" ",)}), "0 characters"),
        (RedactionRules(words={"staff": ("x" * 65,)}), "65 characters"),
        (RedactionRules(named_patterns={"case": ("(",)}), "cannot be used"),
    ],
)
def test_a_dictionary_of_a_host_that_cannot_be_used_is_refused(rules, told):
    with pytest.raises(RedactionError, match=told):
        RegexRedactor(rules)


def test_dictionaries_of_before_find_what_they_found():
    rules = RedactionRules(dictionaries=("pii", "secrets"))
    text = "Patient: Anna Lee, 12 Oak Road, Leeds LS17 8RB"
    assert redact_text(text, rules) == (text, ())


class Namer:
    """A detector of one name."""

    name = "namer"

    async def detect(self, text: str) -> tuple[SensitiveSpan, ...]:
        at = text.find("Ann")
        return () if at < 0 else (SensitiveSpan(rule="pii_person", begin=at, end=at + 3),)


class Broken:
    name = "broken"

    async def detect(self, text: str) -> tuple[SensitiveSpan, ...]:
        raise OSError("no model")


class TestWithDetector(RedactorContract):
    def make_redactor(self):
        return RegexRedactor(detector=Namer())


@pytest.mark.anyio
async def test_a_detector_adds_to_the_patterns():
    result = await RegexRedactor(detector=Namer()).redact("Ann and Ann, a@b.cn")
    assert result.redacted_text == "[redacted:pii_person] and [redacted:pii_person], [redacted:email]"
    assert result.applied_rules == ("email", "pii_person")
    assert [span.rule for span in result.spans] == ["pii_person", "pii_person", "email"]


@pytest.mark.anyio
async def test_a_detector_is_not_asked_where_a_call_leaves_personal_data_alone():
    result = await RegexRedactor(detector=Namer()).redact(
        "Ann, password: hunter2", RedactionRules(dictionaries=("secrets",))
    )
    assert result.redacted_text == "Ann, password: [redacted:secret]"


def test_cards_are_personal_data_and_secrets():
    text = "4945 8073 0215 7365 and 13800138000"
    assert redact_text(text, RedactionRules(dictionaries=("pii",)))[0] == "[redacted:bank_card] and [redacted:phone]"
    assert redact_text(text, RedactionRules(dictionaries=("secrets",)))[0] == "[redacted:bank_card] and 13800138000"


@pytest.mark.anyio
async def test_a_detector_that_fails_withholds_the_text():
    with pytest.raises(RedactionError, match="broken"):
        await RegexRedactor(detector=Broken()).redact("anything")


PIECES = st.one_of(
    st.sampled_from([text for text, _ in SENSITIVE] + [secret for _, secret in SENSITIVE]),
    st.sampled_from(HARMLESS),
    st.text(max_size=8),
)


@given(st.lists(PIECES, max_size=6).map("".join))
def test_redaction_ends_and_repeats_nothing(text):
    redacted, applied = redact_text(text, ALL)
    assert redact_text(redacted, ALL) == (redacted, ())
    assert bool(applied) == (redacted != text)


@given(
    st.text(max_size=40), st.text(max_size=40), st.sampled_from(["13800138000", "a.b@example.cn", "110101199003071233"])
)
def test_no_neighbour_hides_a_number_of_its_own(before, after, secret):
    words = f"{before} {secret} {after}"
    assert secret not in redact_text(words, ALL)[0].replace(before, "").replace(after, "")


@given(st.integers(min_value=0, max_value=10**15 - 1))
def test_luhn_admits_one_check_digit_in_ten(number):
    body = f"4{number:015d}"[:15]
    admitted = [digit for digit in "0123456789" if is_luhn(body + digit)]
    # A number whose digits are all alike is none, whatever its check digit.
    assert len(admitted) == 1 or (not admitted and len(set(body)) == 1)


@given(st.dates(), st.integers(min_value=0, max_value=999))
def test_an_identity_number_has_one_check_sign(born, serial):
    body = f"110101{born:%Y%m%d}{serial:03d}" if born.year >= 1000 else None
    if body is not None and 1850 <= born.year <= 2100:
        assert sum(is_id_card(body + sign) for sign in "0123456789X") == 1
