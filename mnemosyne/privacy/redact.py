"""Removes personal data and secrets from a text before the text is stored.

Every match of a rule becomes `[redacted:<rule>]`. A redactor that fails raises RedactionError, and the caller must
then not store the text. This module must not import a store.
"""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from mnemosyne.core.errors import PatternError, RedactionError
from mnemosyne.core.off_loop import calculate, on_loop, run_off_loop, size_of
from mnemosyne.core.regexes import compile_pattern, find_spans
from mnemosyne.privacy.rules import (
    DICTIONARIES,
    IDENTITY,
    PII,
    RULE_NAMES,
    RULES,
    SECRET_KEY,
    SECRETS,
    Rule,
    Signs,
    signs_of,
)
from mnemosyne.privacy.rules.host_words import WordTable
from mnemosyne.protocols import PiiDetector, Redactor
from mnemosyne.schema.redaction import RedactionRules, RedactResult, SensitiveSpan

MAX_TEXT_CHARS = 4_000_000
SECONDS_A_RULE = 2.0
CHARS_A_SECOND = 500_000
"""A rule gets one second of time for this many characters, because the slowest rules need a microsecond per character."""
CUSTOM = "custom"
FIELD = "field"
SECRET = "secret"
OWN = "own_"
"""Prefix of the name of a host's own class of words in a placeholder: `[redacted:own_employee]`."""
_PERSONAL = frozenset((PII, IDENTITY))
_PASSES = 8
_CLASS = re.compile(r"[a-z](?:[a-z_]{0,28}[a-z])?")
_SEAMS = re.compile(r"\[redacted:[a-z_]{1,40}\]")
_LITERAL = re.compile(r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+("?)')
_WRITTEN_DIGITS = "〇○零一二三四五六七八九幺壹贰貳叁參肆伍陆陸柒捌玖"
_CHINESE_DIGITS = str.maketrans(_WRITTEN_DIGITS, "0001234567891122334566789")
_CHINESE_NUMBER = re.compile(
    rf"[{_WRITTEN_DIGITS}](?:(?:[ .·-]?[0-9{_WRITTEN_DIGITS}]){{7,}}|[{_WRITTEN_DIGITS}]{{4,}})"
)
"""Digits in Chinese, at least five in a row or eight in groups. No word and no date has that many."""
_KNOWN = frozenset(f"[redacted:{name}]" for name in (*RULE_NAMES, CUSTOM, FIELD))
_UNSEEN = dict.fromkeys(
    map(ord, "\u00ad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\ufeff")
)


class RegexRedactor:
    """The built-in `Redactor`.

    It uses shipped dictionaries, custom patterns and words, JSON fields, and an optional detector. Full-width forms
    are read as plain ones, invisible characters are ignored, and escaped JSON strings are decoded.

    Args:
        rules: Rules for calls that give no rules of their own.
        detector: Finds more than patterns can (see `privacy.presidio`). It is not asked if the rules of a call
            contain neither of the dictionaries of personal data (`pii`, `identity`).

    Raises:
        RedactionError: if a rule cannot be used.
    """

    def __init__(self, rules: RedactionRules | None = None, *, detector: PiiDetector | None = None) -> None:
        self.rules = rules or RedactionRules()
        self._detector = detector
        check_rules(self.rules)

    async def redact(self, text: str, rules: RedactionRules | None = None) -> RedactResult:
        """Return `text` without the matches of `rules` (None: the redactor's own rules).

        Raises RedactionError if the search cannot be finished.
        """
        return (await self.redact_all((text,), rules))[0]

    async def redact_all(self, texts: Sequence[str], rules: RedactionRules | None = None) -> list[RedactResult]:
        """Return the result for each text, as `redact` does.

        One worker thread searches all texts, because switching to a thread costs more than searching a short text.
        """
        wanted = self.rules if rules is None else rules
        results = await run_off_loop(_redact_all, texts, wanted, wanted is not self.rules)
        if self._detector is None or (rules is not None and _PERSONAL.isdisjoint(rules.dictionaries)):
            return results
        return [await self._add_detected(result, self._detector) for result in results]

    async def _add_detected(self, result: RedactResult, detector: PiiDetector) -> RedactResult:
        redacted, more = await self._redact_detected(result.redacted_text, detector)
        if not more:
            return result
        return await run_off_loop(result_of, redacted, tuple(dict.fromkeys((*result.applied_rules, *more))))

    async def _redact_detected(self, text: str, detector: PiiDetector) -> tuple[str, tuple[str, ...]]:
        applied: dict[str, None] = {}
        for _ in range(_PASSES):
            try:
                found = await on_loop(detector.detect, text)
            except RedactionError:
                raise
            except Exception as error:
                # If a third-party detector raises anything, the text has not been searched completely.
                raise RedactionError(f"The detector {detector.name!r} failed ({type(error).__name__}).") from error
            text, rules = await run_off_loop(_remove_spans, text, found)
            if not rules:
                return text, tuple(applied)
            applied.update(dict.fromkeys(rules))
        raise RedactionError(f"The detector {detector.name!r} finds more after each redaction; leave it out.")


def _redact_all(texts: Sequence[str], rules: RedactionRules, is_unchecked: bool) -> list[RedactResult]:
    if is_unchecked:
        check_rules(rules)
    return [result_of(*_redact_checked(text, rules)) for text in texts]


def _remove_spans(text: str, found: Iterable[SensitiveSpan]) -> tuple[str, tuple[str, ...]]:
    """Return a text without the found spans, and the rules of those that were not placeholders already."""
    merged = _merge_spans(_subtract_spans(found, _placeholders(text)))
    return _replace_spans(text, merged), tuple(span.rule for span in merged)


def check_rules(rules: RedactionRules) -> None:
    """Raise RedactionError for an unknown dictionary, an illegal class name, or a word, pattern or path that cannot be used."""
    for name in rules.dictionaries:
        if name not in DICTIONARIES:
            known = ", ".join(DICTIONARIES)
            raise RedactionError(f"There is no redaction dictionary {name!r}; there are {known}.")
    for name in (*rules.words, *rules.named_patterns):
        if _CLASS.fullmatch(name) is None:
            raise RedactionError(
                f"A class of redaction is named {name!r}; use 1 to 30 lower-case letters, with underscores between them."
            )
    try:
        _word_table(rules)
        for pattern in (*rules.patterns, *(each for listed in rules.named_patterns.values() for each in listed)):
            compile_pattern(pattern)
        if rules.field_paths:
            from mnemosyne.core.jsonpath import compile_path

            for path in rules.field_paths:
                compile_path(_root_path(path))
    except PatternError as error:
        raise RedactionError(f"A redaction rule cannot be used. {error}") from None
    except ValueError as error:
        raise RedactionError(f"The words of redaction cannot be used: {error}.") from None


def _word_table(rules: RedactionRules) -> WordTable:
    return _make_word_table(tuple((name, tuple(listed)) for name, listed in rules.words.items()))


@lru_cache(maxsize=8)
def _make_word_table(words: tuple[tuple[str, tuple[str, ...]], ...]) -> WordTable:
    return WordTable(dict(words))


def redact_text(text: str, rules: RedactionRules) -> tuple[str, tuple[str, ...]]:
    """Return (text, names): `text` without the matches of `rules`, and the names of the rules that matched.

    The search is repeated until nothing more matches, so redacting the result again changes nothing.

    Raises:
        RedactionError: if a rule cannot be used, the text is too long, or the search cannot be finished.
    """
    check_rules(rules)
    return _redact_checked(text, rules)


def _redact_checked(text: str, rules: RedactionRules) -> tuple[str, tuple[str, ...]]:
    if len(text) > MAX_TEXT_CHARS:
        raise RedactionError(f"The text has more than {MAX_TEXT_CHARS:,} characters; split it before it is ingested.")
    applied: dict[str, None] = {}
    try:
        for _ in range(_PASSES):
            spans, literals = _find_spans(text, rules)
            if not spans and not literals:
                return text, tuple(applied)
            applied.update(dict.fromkeys(span.rule for span in spans))
            applied.update(dict.fromkeys(name for _, _, names in literals for name in names))
            text = _replace_spans(text, spans, {span: new for span, new, _ in literals})
    except PatternError as error:
        raise RedactionError(f"The text could not be searched to its end. {error}") from None
    raise RedactionError("The rules find more after each redaction; check your own patterns.")


def find_sensitive(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the parts of `texts` that the shipped rules match, each once.

    Raises RedactionError if the search cannot be finished.
    """
    rules, found = RedactionRules(), dict[str, None]()
    try:
        for text in texts:
            spans, _ = _find_spans(text, rules)
            found.update(dict.fromkeys(text[span.begin : span.end].strip() for span in spans))
    except PatternError as error:
        raise RedactionError(f"The text could not be searched to its end. {error}") from None
    return tuple(found)


def own_word_rules(redactor: Redactor) -> RedactionRules:
    """Return the rules for redacting the user's own words. These rules remove secrets, and everything that the host's own
    patterns, words and fields find.

    Personal data that only the shipped dictionaries find stays, because the user asked to keep these words.
    """
    rules = getattr(redactor, "rules", None)
    known = rules if isinstance(rules, RedactionRules) else RedactionRules()
    return replace(known, dictionaries=tuple(name for name in known.dictionaries if name == SECRETS))


async def redact_own_words(
    redactor: Redactor, texts: Sequence[str], *, pass_through: bool = False
) -> Sequence[RedactResult]:
    """Return the user's own words redacted by `own_word_rules`.

    If a text cannot be searched and `pass_through` is true, all texts are returned unchanged.

    Raises:
        RedactionError: if a text cannot be searched and `pass_through` is false. Any error of the redactor becomes this error.
    """
    try:
        return await redact_all(redactor, texts, own_word_rules(redactor))
    except Exception as error:
        if pass_through:
            return [RedactResult(redacted_text=text) for text in texts]
        raise to_redaction_error(error) from error


def to_redaction_error(error: Exception) -> RedactionError:
    """Return the RedactionError for a user's text that could not be searched because of `error`."""
    why = str(error) if isinstance(error, RedactionError) else f"The redactor failed ({type(error).__name__})."
    return RedactionError(
        f"The text could not be searched for secrets, so it was not stored. {why} Try again, or switch `redaction.enabled` off."
    )


async def redact_all(
    redactor: Redactor, texts: Sequence[str], rules: RedactionRules | None = None
) -> Sequence[RedactResult]:
    """Return the result of `redactor` for each text. Raises RedactionError if the redactor does."""
    if isinstance(redactor, RegexRedactor):
        return await redactor.redact_all(texts, rules)
    return [await on_loop(redactor.redact, text, rules) for text in texts]


async def redact_tree(
    redactor: Redactor, tree: Any, rules: RedactionRules | None = None
) -> tuple[Any, tuple[str, ...]]:
    """Return (tree, names): a JSON tree with every text redacted, and the rules that matched.

    `names` has one rule for each field with a match. The value of a field with a secret's name (`password`,
    `api_key`, `密码`) is always removed. Keys stay.

    Raises:
        RedactionError: if the redactor does.
    """
    size = size_of(tree)
    texts = tuple(await calculate(lambda: dict.fromkeys(_texts_of(tree)), size=size))
    results = await redact_all(redactor, texts, rules)
    return await calculate(_rebuild_tree, tree, dict(zip(texts, results, strict=True)), size=size)


def _texts_of(tree: Any) -> Iterator[str]:
    """Yield the texts of a tree that are to be searched."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            if not _is_secret(str(key), value):
                yield from _texts_of(value)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from _texts_of(value)


def _rebuild_tree(tree: Any, results: Mapping[str, RedactResult]) -> tuple[Any, tuple[str, ...]]:
    applied: list[str] = []

    def rebuild(value: Any) -> Any:
        if isinstance(value, str):
            applied.extend(results[value].applied_rules[:1])
            return results[value].redacted_text
        if isinstance(value, Mapping):
            return {key: rebuild_field(str(key), each) for key, each in value.items()}
        return [rebuild(each) for each in value] if isinstance(value, list | tuple) else value

    def rebuild_field(key: str, value: Any) -> Any:
        if _is_secret(key, value):
            applied.append(SECRET)
            return placeholder(SECRET)
        return rebuild(value)

    return rebuild(tree), tuple(applied)


def _is_secret(key: str, value: Any) -> bool:
    """Return whether a field's name marks a secret; a number may be a secret PIN, but not a count of tokens."""
    if isinstance(value, bool) or value in ("", placeholder(SECRET)) or SECRET_KEY.fullmatch(key) is None:
        return False
    return isinstance(value, str) or (isinstance(value, int) and "token" not in key.lower())


def placeholder(rule: str) -> str:
    """Return the placeholder that replaces a match of `rule`."""
    return f"[redacted:{rule}]"


def result_of(text: str, applied: Sequence[str]) -> RedactResult:
    """Return the result for `text`, which is redacted already. The spans in the result are the placeholders in `text`.

    `applied` are the names of the rules that matched.
    """
    return RedactResult(
        redacted_text=text,
        applied_rules=tuple(applied),
        has_sensitive=bool(applied),
        spans=tuple(
            SensitiveSpan(rule=text[begin + len("[redacted:") : end - 1], begin=begin, end=end)
            for begin, end in _placeholders(text)
        ),
    )


Literal = tuple[tuple[int, int], str, tuple[str, ...]]


def _find_spans(text: str, rules: RedactionRules) -> tuple[list[SensitiveSpan], list[Literal]]:
    """Return the spans to remove, merged, and the JSON strings whose escapes hide something, with their replacements."""
    plain, origins = _plain(text)
    spans = [
        SensitiveSpan(rule=span.rule, begin=origins[span.begin], end=origins[span.end - 1] + 1) if origins else span
        for span in _matches(plain, rules)
    ]
    spans.extend(_fields(text, rules))
    merged = _merge_spans(_subtract_spans(spans, _placeholders(text)))
    covered = [(span.begin, span.end) for span in merged]
    literals = [each for each in _literals(text, rules) if not _touches(each[0], covered)]
    return merged, literals


def _matches(plain: str, rules: RedactionRules) -> Iterable[SensitiveSpan]:
    lower = plain.lower()
    signs = signs_of(plain, lower)
    seconds = max(SECONDS_A_RULE, len(plain) / CHARS_A_SECOND)
    found: dict[str, list[SensitiveSpan]] = {}
    for rule in _select_rules(rules.dictionaries, signs):
        if rule.hints and not any(hint in lower for hint in rule.hints):
            continue
        others = [(other.begin, other.end) for other in _merge_spans(found.get(rule.unless, ()))]
        for span in find_spans(rule.pattern, plain, group=rule.group, seconds=seconds):
            holds = rule.holds is None or rule.holds(plain[span[0] : span[1]])
            holds = holds and (rule.holds_at is None or rule.holds_at(plain, *span))
            if holds and not _touches(span, others):
                sensitive = SensitiveSpan(rule=rule.name, begin=span[0], end=span[1])
                found.setdefault(rule.name, []).append(sensitive)
                yield sensitive
    for pattern in rules.patterns:
        for begin, end in find_spans(pattern, plain):
            yield SensitiveSpan(rule=CUSTOM, begin=begin, end=end)
    for name, listed in rules.named_patterns.items():
        for pattern in listed:
            for begin, end in find_spans(pattern, plain):
                yield SensitiveSpan(rule=f"{OWN}{name}", begin=begin, end=end)
    for name, begin, end in _word_table(rules).find(plain):
        yield SensitiveSpan(rule=f"{OWN}{name}", begin=begin, end=end)


@lru_cache(maxsize=256)
def _select_rules(dictionaries: tuple[str, ...], signs: Signs) -> tuple[Rule, ...]:
    return tuple(
        rule for rule in RULES if {rule.dictionary, rule.also} & set(dictionaries) and rule.needs & signs == rule.needs
    )


def _fields(text: str, rules: RedactionRules) -> Iterable[SensitiveSpan]:
    """Yield the values of the fields to remove, if the text is JSON."""
    if not rules.field_paths or not text.lstrip().startswith(("{", "[")):
        return
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return
    except (ValueError, RecursionError):
        raise RedactionError("The text is JSON that is too deep or too large to search for fields.") from None
    from mnemosyne.core.jsonpath import find_nodes

    for path in rules.field_paths:
        for node in find_nodes(text, _root_path(path)):
            if node.value != placeholder(FIELD):
                quoted = isinstance(node.value, str)
                begin, end = (node.span[0] - 1, node.span[1] + 1) if quoted else node.span
                yield SensitiveSpan(rule=FIELD, begin=begin, end=end)


def _literals(text: str, rules: RedactionRules) -> Iterable[Literal]:
    if "\\" not in text:
        return
    without_fields = replace(rules, field_paths=())
    # An unclosed string is skipped as a whole: no string that begins inside it closes sooner.
    for found in _LITERAL.finditer(text):
        raw = found.group()
        if "\\" not in raw or not found[1]:
            continue
        try:
            said = json.loads(raw)
        except ValueError:
            continue
        plain, origins = _plain(said)
        spans = [
            SensitiveSpan(rule=span.rule, begin=origins[span.begin], end=origins[span.end - 1] + 1) if origins else span
            for span in _matches(plain, without_fields)
        ]
        merged = _merge_spans(_subtract_spans(spans, _placeholders(said)))
        if merged:
            new = json.dumps(_replace_spans(said, merged), ensure_ascii=raw.isascii())
            yield found.span(), new, tuple(dict.fromkeys(span.rule for span in merged))


def _plain(text: str) -> tuple[str, list[int]]:
    """Return a text in plain letters, and the index that each character comes from (empty: the same index)."""
    if text.isascii():
        return text, []
    folded = _CHINESE_NUMBER.sub(_write_digits, "".join(map(_fold, text)))
    if not any(ord(char) in _UNSEEN for char in folded):
        return folded, []
    origins = [place for place, char in enumerate(folded) if ord(char) not in _UNSEEN]
    return "".join(folded[place] for place in origins), origins


@lru_cache(maxsize=4096)
def _fold(char: str) -> str:
    """Return the plain form of a character if it is one character; digits of any script become 0-9."""
    if char.isascii():
        return char
    digit = unicodedata.decimal(char, None)
    if digit is not None:
        return str(digit)
    if unicodedata.category(char) == "Pd":
        return "-"
    plain = unicodedata.normalize("NFKC", char)
    return plain if len(plain) == 1 and plain.isascii() else char


def _write_digits(found: re.Match[str]) -> str:
    return found.group().translate(_CHINESE_DIGITS)


def _placeholders(text: str) -> list[tuple[int, int]]:
    return [found.span() for found in _SEAMS.finditer(text) if found.group() in _KNOWN or _is_detected(found.group())]


def _is_detected(seam: str) -> bool:
    return seam.startswith(("[redacted:pii_", f"[redacted:{OWN}"))


def _subtract_spans(spans: Iterable[SensitiveSpan], protected: Sequence[tuple[int, int]]) -> list[SensitiveSpan]:
    """Return spans without the parts that placeholders (in order, disjoint) cover: a placeholder must not be redacted
    again.
    """
    apart: list[SensitiveSpan] = []
    for span in spans:
        begin, place = span.begin, _find_first_after(protected, span.begin)
        while place < len(protected) and protected[place][0] < span.end:
            low, high = protected[place]
            if begin < low:
                apart.append(SensitiveSpan(rule=span.rule, begin=begin, end=low))
            begin, place = high, place + 1
        if begin < span.end:
            apart.append(SensitiveSpan(rule=span.rule, begin=begin, end=span.end))
    return apart


def _merge_spans(spans: Iterable[SensitiveSpan]) -> list[SensitiveSpan]:
    """Return spans in order; overlapping ones are merged under the rule of the one that begins first (the longest of
    those).
    """
    merged: list[SensitiveSpan] = []
    for span in sorted(spans, key=lambda span: (span.begin, -span.end)):
        if merged and span.begin < merged[-1].end:
            last = merged[-1]
            merged[-1] = SensitiveSpan(rule=last.rule, begin=last.begin, end=max(last.end, span.end))
        else:
            merged.append(span)
    return merged


def _touches(span: tuple[int, int], covered: Sequence[tuple[int, int]]) -> bool:
    """Return whether a span overlaps one of `covered`, which are in order and disjoint."""
    place = _find_first_after(covered, span[0])
    return place < len(covered) and covered[place][0] < span[1]


def _find_first_after(spans: Sequence[tuple[int, int]], begin: int) -> int:
    """Return the index of the first span that ends after `begin`; the spans are in order and disjoint."""
    return bisect_right(spans, begin, key=lambda span: span[1])


def _replace_spans(
    text: str, spans: Sequence[SensitiveSpan], literals: Mapping[tuple[int, int], str] | None = None
) -> str:
    changes = [(span.begin, span.end, _replacement_of(span)) for span in spans]
    changes.extend((begin, end, new) for (begin, end), new in (literals or {}).items())
    parts, at = [], 0
    for begin, end, new in sorted(changes):
        parts += [text[at:begin], new]
        at = end
    return "".join((*parts, text[at:]))


def _replacement_of(span: SensitiveSpan) -> str:
    return json.dumps(placeholder(FIELD)) if span.rule == FIELD else placeholder(span.rule)


def _root_path(path: str) -> str:
    return path if path.startswith("$") else f"$.{path}"
