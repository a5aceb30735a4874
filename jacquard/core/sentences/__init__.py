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
    template = next(each for each in _read_tables()[0] if each.code == sentence.code)
    return _render(template, sentence.facts, language, 0)


def find_templates(code: str) -> Mapping[str, str]:
    """Return the templates of a code or of a code of `phrases.toml` by language. Raises KeyError if there is none."""
    return _read_forms()[code]


def list_codes() -> Sequence[str]:
    """Return the codes of all templates, those of `phrases.toml` too."""
    return tuple(_read_forms())


@lru_cache(4096)
def _translate(text: str, language: str, table: str) -> str:
    phrase = _find(text, _read_tables()[1].get(table, ()), 0)
    return _translate_nested(text, language, 0) if phrase is None else _render(*phrase, language, 0)


def _translate_nested(text: str, language: str, depth: int) -> str:
    found = _find(text, _read_tables()[0], depth)
    if found is not None:
        return _render(*found, language, depth)
    return "\n".join(_translate_fault(line, language, depth) for line in text.split("\n")) if ": " in text else text


def _translate_fault(line: str, language: str, depth: int) -> str:
    """Return a line in which a sentence follows its place (`world.yaml:3: lore[0].id: is missing; add it`)."""
    parts = line.split(": ", _MOST_PLACES)
    for number in range(len(parts)):
        found = _find(": ".join(parts[number:]), _read_tables()[0], depth)
        if found is not None:
            return "：".join([*parts[:number], _render(*found, language, depth)])
    return line


def _find(text: str, templates: Sequence[_Template], depth: int) -> tuple[_Template, dict[str, str]] | None:
    """Return the first template that `text` fits, with the facts; None if there is none, or the text is too long."""
    if depth > _MOST_DEPTH or len(text) > _MOST_CHARS:
        return None
    for each in templates:
        # Most templates are ruled out by their ends.
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
    return value == "" or _find(value, _read_tables()[1].get(kind, ()), depth + 1) is not None


def _render(template: _Template, facts: Mapping[str, str], language: str, depth: int) -> str:
    values = {}
    for name, kind in zip(template.names, template.kinds, strict=True):
        value = facts[name]
        if kind == _ANY:
            value = _translate_nested(value, language, depth + 1)
        elif kind not in _TEXTS and value:
            found = _find(value, _read_tables()[1].get(kind, ()), depth + 1)
            value = value if found is None else _render(*found, language, depth + 1)
        values[name] = value
    return template.forms[language].format(**values)


@cache
def _read_forms() -> Mapping[str, Mapping[str, str]]:
    return {code: forms for file in sorted(_FOLDER.glob("*.toml")) for code, forms in _read_file(file)}


def _read_file(file: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    import tomllib  # English readers do without it

    for table, rows in tomllib.loads(file.read_text(encoding="utf-8")).items():
        for key, forms in rows.items():
            yield f"{table}.{key}", forms


@cache
def _read_tables() -> tuple[Sequence[_Template], Mapping[str, Sequence[_Template]]]:
    """Return the templates of sentences, and those of phrases by table; those with the longest fixed texts come first."""
    sentences: list[_Template] = []
    phrases: dict[str, list[_Template]] = {}
    for file in sorted(_FOLDER.glob("*.toml")):
        for code, forms in _read_file(file):
            into = phrases.setdefault(code.partition(".")[0], []) if file.stem in _PHRASES else sentences
            into.append(_build(code, forms))
    for each in (sentences, *phrases.values()):
        each.sort(key=lambda template: -sum(map(len, template.pieces)))
    return sentences, phrases


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
