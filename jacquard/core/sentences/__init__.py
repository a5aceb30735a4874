"""Renders in another language the sentences that code writes in English: reasons, verdicts, degradations, errors, findings.

A sentence is recorded in English. The TOML files of this folder contain each template in English and in Chinese
(`key = { en = "…", zh = "…" }` in a table). A recorded sentence is compared with the English templates; this gives its
code (`table.key`) and its facts, which the template of another language renders. A text without a template, such as a
host's own, is left unchanged.

A sentence may follow a place (`world.yaml:3: lore[0].id: …`), and a text may have one such line below another.

`{name}` stands for any text, `{name:word}` for one without blanks, `{name:number}` for a number, `{name:any}` for a text
that may be a sentence itself, and `{name:TABLE}` for nothing or a phrase of a table in `phrases.toml`. Only sentences and
these phrases are translated; between two placeholders stands a fixed text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from string import Formatter

from mnemosyne.values import dataclass

LANGUAGES = ("en", "zh")

_FOLDER = Path(__file__).parent
_PHRASES = ("phrases", "terminal", "usage")
"""Files whose tables are used only where a placeholder or a caller names them."""
_ANY, _NUMBER, _WORD = "any", "number", "word"
_TEXTS = ("", _ANY, _NUMBER, _WORD)
"""Kinds of placeholders that stand for at least one character and for no phrase of a table."""
_MOST_CHARS = 10_000
_MOST_DEPTH = 8
_END = 3
"""Number of characters by which templates are found."""
_ROW = re.compile(r'(?P<key>\w+) = \{ en = (?P<en>"(?:[^"\\]|\\.)*"), zh = (?P<zh>"(?:[^"\\]|\\.)*") \}')
"""Row of a table. This form of TOML is read ten times faster than any TOML."""
_MOST_PLACES = 6
"""Maximum number of parts of a place before a sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentence:
    """Code and facts of a sentence."""

    code: str
    """`TABLE.KEY` of its template."""
    facts: Mapping[str, str]
    """Texts for which the placeholders of the template stand, as they are in English."""


@dataclass(frozen=True, slots=True)
class _Template:
    """One template: the texts between its placeholders in English, and its form in each language."""

    code: str
    pieces: tuple[str, ...]
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    forms: Mapping[str, str]

    def read(self, text: str, depth: int) -> dict[str, str] | None:
        """Return the facts of `text`, whose ends fit; None if its middle does not fit the template."""
        first, last = self.pieces[0], self.pieces[-1]
        if not self.names:
            return {} if text == first else None
        if len(text) < len(first) + len(last):
            return None
        inner = text[len(first) : len(text) - len(last)]
        for values in (self._split(inner), self._split_backwards(inner)):
            if values is not None and all(map(_fits, values, self.kinds, [depth] * len(values))):
                return dict(zip(self.names, values, strict=True))
        return None

    def _split(self, inner: str) -> list[str] | None:
        values, at = [], 0
        for piece, kind in zip(self.pieces[1:-1], self.kinds[:-1], strict=True):
            found = inner.find(piece, at + (kind in _TEXTS))
            if found < 0:
                return None
            values.append(inner[at:found])
            at = found + len(piece)
        return [*values, inner[at:]]

    def _split_backwards(self, inner: str) -> list[str] | None:
        values, end = [], len(inner)
        for piece in reversed(self.pieces[1:-1]):
            found = inner.rfind(piece, 0, end)
            if found < 0:
                return None
            values.append(inner[found + len(piece) : end])
            end = found
        return [inner[:end], *reversed(values)]


class _Table:
    """Templates by their ends, so that a text is compared with few of them; those with the longest fixed texts come first."""

    def __init__(self, templates: Sequence[_Template] = ()) -> None:
        self.templates = tuple(sorted(templates, key=lambda template: -sum(map(len, template.pieces))))
        self._by_end: dict[tuple[str, str], list[tuple[int, _Template]]] = {}
        for rank, each in enumerate(self.templates):
            first, last = each.pieces[0], each.pieces[-1]
            end = (first[:_END], "") if len(first) >= _END else ("", last[-_END:] if len(last) >= _END else "")
            self._by_end.setdefault(end, []).append((rank, each))

    def near(self, text: str) -> Iterator[_Template]:
        """Yield the templates with the ends of a text, in their order."""
        ends = ((text[:_END], ""), ("", text[-_END:]), ("", ""))
        near = [each for end in ends for each in self._by_end.get(end, ())]
        near.sort(key=lambda each: each[0])
        return (each for _, each in near)


def translate(text: str, language: str, table: str = "") -> str:
    """Return a recorded sentence in a language of `LANGUAGES`; a text that no template fits is returned unchanged.

    `table` names phrases that are tried before the sentences.
    """
    return text if language == LANGUAGES[0] or language not in LANGUAGES else _translate(text, language, table)


def parse_sentence(text: str) -> Sentence | None:
    """Return the code and the facts of a recorded sentence; None if no template fits."""
    found = _find(text, _read_tables()[0], 0)
    return None if found is None else Sentence(code=found[0].code, facts=found[1])


def render_sentence(sentence: Sentence, language: str) -> str:
    """Return the text of a sentence in a language of `LANGUAGES`. Raises KeyError if there is no such code or fact."""
    template = next(each for each in _read_tables()[0].templates if each.code == sentence.code)
    return _render(template, sentence.facts, language, 0)


def find_language(environment: Mapping[str, str]) -> str:
    """Return the language of `LANGUAGES` that the environment of a process names; English if it names another one or none."""
    named = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := environment.get(name))), "")
    return next((each for each in LANGUAGES if named.lower().startswith(each)), LANGUAGES[0])


def find_templates(code: str) -> Mapping[str, str]:
    """Return the templates of a code or of a code of `phrases.toml` by language. Raises KeyError if there is none."""
    return _read_forms()[code]


def list_codes() -> Sequence[str]:
    """Return the codes of all templates, those of `phrases.toml` too."""
    return tuple(_read_forms())


_NO_TABLE = _Table()


@lru_cache(4096)
def _translate(text: str, language: str, table: str) -> str:
    phrase = _find(text, _read_tables()[1].get(table, _NO_TABLE), 0)
    return _translate_nested(text, language, 0) if phrase is None else _render(*phrase, language, 0)


def _translate_nested(text: str, language: str, depth: int) -> str:
    if ": " not in text and "\n" not in text:
        found = _find_ended(text, depth)
        return text if found is None else _render_ended(found, language, depth)
    whole = _find(text, _read_tables()[0], depth)
    if whole is not None and not _has_place(whole):
        return _render(*whole, language, depth)
    lines = [_translate_fault(line, language, depth) for line in text.split("\n")]
    if whole is not None and lines == text.split("\n"):
        return _render(*whole, language, depth)
    return "\n".join(lines)


def _translate_fault(line: str, language: str, depth: int) -> str:
    """Return a line in which a sentence follows its place (`world.yaml:3: lore[0].id: is missing; add it`)."""
    parts = line.split(": ", _MOST_PLACES)
    for number in range(len(parts)):
        found = _find_ended(": ".join(parts[number:]), depth)
        if found is not None and not _has_place(found[:2]):
            return "：".join([*parts[:number], _render_ended(found, language, depth)])
    return line


def _has_place(found: tuple[_Template, Mapping[str, str]]) -> bool:
    """Return whether the text of the first placeholder, at the beginning of the sentence, may contain a place."""
    template, facts = found
    return template.pieces[0] == "" and ": " in facts[template.names[0]]


def _find_ended(text: str, depth: int) -> tuple[_Template, dict[str, str], str] | None:
    """Return the template of a sentence with its facts, and the full stop that it has beyond the template."""
    found = _find(text, _read_tables()[0], depth)
    if found is None and text.endswith("."):
        found = _find(text[:-1], _read_tables()[0], depth)
        return None if found is None else (*found, "。")
    return None if found is None else (*found, "")


def _render_ended(found: tuple[_Template, dict[str, str], str], language: str, depth: int) -> str:
    template, facts, end = found
    return _render(template, facts, language, depth) + end


def _find(text: str, table: _Table, depth: int) -> tuple[_Template, dict[str, str]] | None:
    """Return the first template that `text` fits, with the facts; None if there is none, or the text is too long."""
    if not text or depth > _MOST_DEPTH or len(text) > _MOST_CHARS:
        return None
    for each in table.near(text):
        fits = text.startswith(each.pieces[0]) and text.endswith(each.pieces[-1])
        if fits and (facts := each.read(text, depth)) is not None:
            return each, facts
    return None


def _fits(value: str, kind: str, depth: int) -> bool:
    if kind in ("", _ANY):
        return value != ""
    if kind == _NUMBER:
        return value != "" and not value.strip("0123456789.,%-") and value.strip(".,%-") != ""
    if kind == _WORD:
        return value != "" and not any(map(str.isspace, value))
    return value == "" or _find(value, _read_tables()[1].get(kind, _NO_TABLE), depth + 1) is not None


def _render(template: _Template, facts: Mapping[str, str], language: str, depth: int) -> str:
    values = {}
    for name, kind in zip(template.names, template.kinds, strict=True):
        value = facts[name]
        if kind == _ANY:
            value = _translate_nested(value, language, depth + 1)
        elif kind not in _TEXTS and value:
            found = _find(value, _read_tables()[1].get(kind, _NO_TABLE), depth + 1)
            value = value if found is None else _render(*found, language, depth + 1)
        values[name] = value
    return template.forms[language].format(**values)


@cache
def _read_forms() -> Mapping[str, Mapping[str, str]]:
    return {code: forms for file in sorted(_FOLDER.glob("*.toml")) for code, forms in _read_file(file)}


def _read_file(file: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    import json  # English readers do without it

    table = ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            table = line.strip("[]")
        elif (row := _ROW.fullmatch(line)) is not None:
            yield f"{table}.{row['key']}", {name: json.loads(row[name]) for name in LANGUAGES}


@cache
def _read_tables() -> tuple[_Table, Mapping[str, _Table]]:
    """Return the templates of sentences, and those of phrases by table."""
    sentences: list[_Template] = []
    phrases: dict[str, list[_Template]] = {}
    for file in sorted(_FOLDER.glob("*.toml")):
        for code, forms in _read_file(file):
            into = phrases.setdefault(code.partition(".")[0], []) if file.stem in _PHRASES else sentences
            into.append(_build(code, forms))
    return _Table(sentences), {name: _Table(each) for name, each in phrases.items()}


def _build(code: str, forms: Mapping[str, str]) -> _Template:
    pieces, names, kinds = [""], [], []
    for text, name, kind, _ in Formatter().parse(forms[LANGUAGES[0]]):
        pieces[-1] += text
        if name is not None:
            names.append(name)
            kinds.append(kind or "")
            pieces.append("")
    escaped = [piece.replace("{", "{{").replace("}", "}}") for piece in pieces]
    places = [*(f"{{{name}}}" for name in names), ""]
    english = "".join(part for pair in zip(escaped, places, strict=True) for part in pair)
    return _Template(code, tuple(pieces), tuple(names), tuple(kinds), {**forms, LANGUAGES[0]: english})
